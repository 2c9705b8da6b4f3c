//! A stream may be cut anywhere: every message, split at every byte, reads the same.

use proptest::prelude::*;
use wire::backend::{self, Authentication, Status};
use wire::startup::{self, CancelKey, Packet};
use wire::{frame, frontend};

fn samples() -> Vec<u8> {
    let mut out = Vec::new();
    frontend::write_query(&mut out, "SELECT 1");
    frontend::write_parse(&mut out, b"s1", b"SELECT $1\0\0\x01\0\0\0\x17");
    frontend::write_statement_target(&mut out, b'D', b"s1");
    frontend::write_sync(&mut out);
    frontend::write_password(&mut out, b"secret");
    frontend::write_sasl_initial(&mut out, "SCRAM-SHA-256", b"n,,n=,r=abc");
    frontend::write_sasl_response(&mut out, b"c=biws");
    frontend::write_terminate(&mut out);
    for what in [
        Authentication::Ok,
        Authentication::CleartextPassword,
        Authentication::Md5Password(*b"salt"),
        Authentication::Sasl(vec!["SCRAM-SHA-256"]),
        Authentication::SaslContinue(b"r=1"),
        Authentication::SaslFinal(b"v=1"),
    ] {
        backend::write_authentication(&mut out, &what);
    }
    backend::write_parameter_status(&mut out, "TimeZone", "UTC");
    backend::write_backend_key_data(&mut out, 7, &[1, 2, 3, 4]);
    backend::write_ready_for_query(&mut out, Status::Failed);
    backend::write_error(&mut out, "ERROR", "42601", "syntax error");
    backend::write_notice(&mut out, "NOTICE", "00000", "by the way");
    backend::write_command_complete(&mut out, "SELECT 1");
    backend::write_row_description(&mut out, [("a", backend::ColumnType::Text)].into_iter());
    backend::write_data_row(&mut out, [Some(&b"x"[..]), None].into_iter());
    backend::write_negotiate_version(&mut out, 2, &["_pq_.x"]);
    out
}

/// Reads messages as a connection does: whatever is whole, as bytes come in.
fn read_in_pieces(pieces: &[&[u8]]) -> Vec<(u8, Vec<u8>)> {
    let (mut held, mut found) = (Vec::new(), Vec::new());
    for piece in pieces {
        held.extend_from_slice(piece);
        let mut at = 0;
        while let Ok(Some(message)) = frame::message(&held[at..]) {
            found.push((message.tag, message.body.to_vec()));
            at = held.len() - message.rest.len();
        }
        held.drain(..at);
    }
    assert!(held.is_empty(), "{} bytes left over", held.len());
    found
}

#[test]
fn every_message_reads_the_same_when_split_at_every_byte() {
    let stream = samples();
    let whole = read_in_pieces(&[&stream]);
    assert_eq!(whole.len(), 23);
    for at in 0..=stream.len() {
        assert_eq!(read_in_pieces(&[&stream[..at], &stream[at..]]), whole, "split at {at}");
    }
    let bytes: Vec<&[u8]> = stream.chunks(1).collect();
    assert_eq!(read_in_pieces(&bytes), whole);
}

#[test]
fn startup_packets_wait_until_they_are_whole() {
    let mut packets = Vec::new();
    let mut one = Vec::new();
    startup::write_startup(&mut one, [("user", "u"), ("database", "d"), ("user", "v")]);
    packets.push(std::mem::take(&mut one));
    startup::write_ssl_request(&mut one);
    packets.push(std::mem::take(&mut one));
    startup::write_cancel(&mut one, &CancelKey { pid: 5, secret: vec![9; 32] });
    packets.push(one);
    for packet in &packets {
        for at in 0..packet.len() {
            assert_eq!(startup::read(&packet[..at]).unwrap(), None, "at {at}");
        }
        assert_eq!(startup::read(packet).unwrap().unwrap().1, packet.len());
    }
    let Packet::Startup(read) = startup::read(&packets[0]).unwrap().unwrap().0 else { panic!("not a startup packet") };
    assert_eq!((read.get("user"), read.get("database"), read.get("options")), (Some("v"), Some("d"), None));
}

#[test]
fn what_was_written_is_what_is_read() {
    let mut out = Vec::new();
    backend::write_error(&mut out, "FATAL", "28P01", "no \0 zero");
    let report = backend::report(frame::message(&out).unwrap().unwrap().body).unwrap();
    assert_eq!(
        (&*report.severity, &*report.code, &*report.message),
        ("FATAL", "28P01", "no  zero"),
        "a zero would end the message early"
    );
    out.clear();
    backend::write_data_row(&mut out, [Some(&b"x"[..]), None, Some(b"")].into_iter());
    let row = frame::message(&out).unwrap().unwrap();
    assert_eq!(backend::data_row(row.body).unwrap(), [Some(&b"x"[..]), None, Some(b"")]);
    out.clear();
    frontend::write_parse(&mut out, b"s", b"SELECT $1\0\0\x01\0\0\0\x17");
    let parse = frontend::parse(frame::message(&out).unwrap().unwrap().body).unwrap();
    assert_eq!((parse.name, parse.query), (&b"s"[..], &b"SELECT $1"[..]));
}

#[test]
fn impossible_lengths_are_refused_before_the_body_comes() {
    for length in [-1, 0, 3, i32::MIN, i32::MAX, 0x4000_0004] {
        let mut bytes = vec![b'Q'];
        bytes.extend_from_slice(&length.to_be_bytes());
        assert!(wire::header(&bytes).is_err(), "{length}");
    }
    for length in [-1, 0, 7, 10_001, i32::MAX] {
        assert!(startup::read(&length.to_be_bytes()).is_err(), "{length}");
    }
    let version_2 = [0, 0, 0, 8, 0, 2, 0, 0];
    assert_eq!(
        startup::read(&version_2).unwrap_err().to_string(),
        "unsupported frontend protocol 2.0: server supports 3.0 to 3.2"
    );
}

proptest! {
    #[test]
    fn no_bytes_make_a_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = frame::message(&bytes);
        let _ = startup::read(&bytes);
        let _ = frontend::parse(&bytes);
        let _ = frontend::bind(&bytes);
        let _ = frontend::target(b'D', &bytes);
        let _ = frontend::query(&bytes);
        let _ = frontend::sasl_initial(&bytes);
        let _ = backend::authentication(&bytes);
        let _ = backend::parameter_status(&bytes);
        let _ = backend::backend_key_data(&bytes);
        let _ = backend::report(&bytes);
        let _ = backend::data_row(&bytes);
    }

    #[test]
    fn hostile_startup_packets_are_errors_or_packets(code in any::<i32>(), body in prop::collection::vec(any::<u8>(), 0..64)) {
        let mut bytes = i32::try_from(body.len() + 8).unwrap().to_be_bytes().to_vec();
        bytes.extend_from_slice(&code.to_be_bytes());
        bytes.extend_from_slice(&body);
        if let Ok(Some((_, length))) = startup::read(&bytes) {
            prop_assert_eq!(length, bytes.len());
        }
    }

    #[test]
    fn any_cuts_give_the_same_messages(cuts in prop::collection::vec(0_usize..400, 0..12)) {
        let stream = samples();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(stream.len())).collect();
        cuts.sort_unstable();
        cuts.insert(0, 0);
        cuts.push(stream.len());
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &stream[pair[0]..pair[1]]).collect();
        prop_assert_eq!(read_in_pieces(&pieces), read_in_pieces(&[&stream]));
    }
}
