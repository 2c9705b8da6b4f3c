//! What a client sends.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::frame::{self, HEADER, MAX_BODY};
use wire::frontend::{self, Bind, Target, tag};

fuzz_target!(|data: &[u8]| {
    let mut left = data;
    while let Ok(Some(message)) = frame::message(left) {
        let (whole, body) = (&left[..HEADER + message.body.len()], message.body);
        assert!(body.len() <= MAX_BODY && whole.len() + message.rest.len() == left.len());
        assert!(matches!(frame::message(&whole[..whole.len() - 1]), Ok(None)));
        let mut again = Vec::new();
        match message.tag {
            tag::PARSE => {
                if let Ok(parse) = frontend::parse(body) {
                    frontend::write_parse(&mut again, parse.name, parse.definition);
                    fuzz::pooler::prepare(parse.definition);
                }
            }
            tag::BIND => {
                if let Some(Bind { portal, statement }) = frontend::bind(body) {
                    assert!(body.starts_with(&[portal, b"\0", statement, b"\0"].concat()));
                }
            }
            tag::DESCRIBE | tag::CLOSE => {
                if let Ok(Target::Statement(name)) = frontend::target(message.tag, body) {
                    frontend::write_statement_target(&mut again, message.tag, name);
                    again.extend_from_slice(&body[name.len() + 2..]);
                    again[1..5].copy_from_slice(&whole[1..5]);
                }
            }
            tag::QUERY => {
                if let Ok(sql) = frontend::query(body) {
                    fuzz::pooler::sql(sql);
                }
            }
            tag::PASSWORD => {
                let _ = frontend::password(body);
                if let Ok((mechanism, response)) = frontend::sasl_initial(body) {
                    assert!(mechanism.len() + 1 + 4 + response.len() <= body.len());
                }
            }
            _ => (),
        }
        assert!(again.is_empty() || again == whole);
        left = message.rest;
    }
    assert!(frame::message(left).is_err() || left.len() < HEADER || frame::header(left).unwrap().unwrap().total() > left.len());
});
