//! What comes before the first message.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::startup::{self, Packet};

fuzz_target!(|data: &[u8]| {
    let Ok(Some((packet, length))) = startup::read(data) else { return };
    assert!((8..=startup::MAX_PACKET).contains(&length) && length <= data.len());
    // Wherever it is cut, more is asked for; what follows changes nothing.
    for cut in 0..length {
        assert!(matches!(startup::read(&data[..cut]), Ok(None)));
    }
    assert_eq!(startup::read(&data[..length]).unwrap(), Some((packet.clone(), length)));
    let mut again = Vec::new();
    match &packet {
        Packet::SslRequest => startup::write_ssl_request(&mut again),
        Packet::GssEncRequest => return,
        Packet::Cancel(key) => startup::write_cancel(&mut again, key),
        Packet::Startup(packet) => {
            fuzz::pooler::startup(packet);
            startup::write_startup(&mut again, packet.parameters.iter().copied());
            let Ok(Some((Packet::Startup(read), _))) = startup::read(&again) else { panic!("{again:?}") };
            assert_eq!(read.parameters, packet.parameters);
            return;
        }
    }
    assert_eq!(again, &data[..length]);
});
