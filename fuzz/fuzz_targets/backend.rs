//! What a server sends.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::backend::{self, Authentication, tag};
use wire::frame;

fuzz_target!(|data: &[u8]| {
    let mut left = data;
    while let Ok(Some(message)) = frame::message(left) {
        let body = message.body;
        let mut again = Vec::new();
        match message.tag {
            tag::AUTHENTICATION => {
                if let Ok(what) = backend::authentication(body)
                    && !matches!(what, Authentication::Other(_))
                {
                    backend::write_authentication(&mut again, &what);
                    let written = frame::message(&again).unwrap().unwrap();
                    assert_eq!(backend::authentication(written.body).unwrap(), what);
                }
            }
            tag::PARAMETER_STATUS => {
                if let Ok((name, value)) = backend::parameter_status(body) {
                    backend::write_parameter_status(&mut again, name, value);
                    let written = frame::message(&again).unwrap().unwrap();
                    assert!(body.starts_with(written.body));
                    fuzz::pooler::parameter(name, value);
                }
            }
            tag::BACKEND_KEY_DATA => {
                if let Ok((pid, secret)) = backend::backend_key_data(body) {
                    backend::write_backend_key_data(&mut again, pid, secret);
                    assert_eq!(frame::message(&again).unwrap().unwrap().body, body);
                }
            }
            tag::READY_FOR_QUERY => {
                if let Ok(status) = backend::ready_for_query(body) {
                    assert_eq!([status.byte()], body);
                }
            }
            tag::ERROR_RESPONSE | tag::NOTICE_RESPONSE => {
                let _ = backend::report(body);
            }
            tag::COMMAND_COMPLETE => {
                let _ = backend::command_complete(body);
            }
            tag::DATA_ROW => {
                if let Ok(values) = backend::data_row(body) {
                    backend::write_data_row(&mut again, values.iter().copied());
                    let written = frame::message(&again).unwrap().unwrap();
                    assert_eq!(backend::data_row(written.body).unwrap(), values);
                }
            }
            _ => (),
        }
        left = message.rest;
    }
});
