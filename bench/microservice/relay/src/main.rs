//! A wire with a delay between network namespaces: `relay MICROSECONDS NAMESPACE=IPV4...`.
//!
//! In each namespace (as `ip netns` names them) it makes the TUN device `howdah0`; a packet that comes out of one goes
//! into the one whose address it is for, so much later. It never spins: it sleeps until a packet comes or is due. After
//! packets came it waits for a moment more, so that those that come close together are carried together; and it runs
//! before the programs that it serves, as a wire does not wait for a processor.
//!
//! A line on standard input is answered by what was carried since the last one, as JSON; the end of standard input ends
//! the relay, and with it the devices.

mod device;
mod line;

use std::io::{Error, Read, Result, Write};
use std::net::Ipv4Addr;

use device::{Device, now, run_first, sleep, wait};
use line::{Carried, Line};

/// How long packets are gathered for, in nanoseconds: a small part of the delay.
const GATHER: u64 = 50_000;
/// More than the greatest packet of a TUN device with the usual MTU.
const LARGEST: usize = 65_536;
/// The most packets that are read from a device before others have their turn.
const BURST: usize = 64;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let usage = || Error::other("usage: relay MICROSECONDS NAMESPACE=IPV4...");
    let delay: u64 = arguments.next().and_then(|text| text.parse().ok()).ok_or_else(usage)?;
    let mut devices = Vec::new();
    for argument in arguments {
        let (namespace, address) = argument.split_once('=').ok_or_else(usage)?;
        let address: Ipv4Addr = address.parse().map_err(|_| usage())?;
        devices.push(Device::open(namespace, address)?);
    }
    run_first();
    println!("ready");
    relay(delay * 1000, &devices)
}

/// Carries packets until standard input ends.
fn relay(delay: u64, devices: &[Device]) -> Result<()> {
    // A packet that came while others were gathered was there for a while, half of that at a guess, when it is read.
    let mut line = Line::new(delay.saturating_sub(GATHER / 2));
    let mut buffer = vec![0; LARGEST];
    loop {
        if wait(devices, line.leaves())? && !answer(&mut line)? {
            return Ok(());
        }
        let mut came = false;
        for device in devices {
            for _ in 0..BURST {
                let Some(length) = device.read(&mut buffer)? else { break };
                let packet = buffer.get(..length).unwrap_or_default();
                if let Some(to) = destination(packet).and_then(|address| devices.iter().position(|d| d.is_at(address)))
                {
                    line.push(now(), to, packet);
                    came = true;
                }
            }
        }
        // A packet that the device does not take is lost, as on any wire.
        while line.deliver(now(), |to, packet| devices.get(to).map_or((), |device| device.write(packet))) {}
        if came {
            let until = now() + GATHER;
            sleep(line.leaves().map_or(until, |leaves| leaves.min(until)));
        }
    }
}

/// Answers a line of standard input; false at its end.
fn answer(line: &mut Line) -> Result<bool> {
    let mut asked = [0; 64];
    if std::io::stdin().read(&mut asked)? == 0 {
        return Ok(false);
    }
    let Carried { packets, bytes, late, off } = line.take_carried();
    println!(r#"{{"packets": {packets}, "bytes": {bytes}, "late_ns": {late}, "off_ns": {off}}}"#);
    std::io::stdout().flush()?;
    Ok(true)
}

/// Where an IPv4 packet goes; None of anything else.
fn destination(packet: &[u8]) -> Option<Ipv4Addr> {
    let version = packet.first()? >> 4;
    let address: [u8; 4] = packet.get(16..20)?.try_into().ok()?;
    (version == 4).then(|| address.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_destination_is_the_second_address_of_an_ipv4_header() {
        let mut packet = [0; 20];
        packet[0] = 0x45;
        packet[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        assert_eq!(destination(&packet), Some(Ipv4Addr::new(10, 0, 0, 2)));
        packet[0] = 0x60;
        assert_eq!(destination(&packet), None);
        assert_eq!(destination(&packet[..10]), None);
        assert_eq!(destination(&[]), None);
    }
}
