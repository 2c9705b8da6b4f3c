//! What Linux gives: TUN devices in network namespaces, a clock, and ways to wait.

use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

/// The name of the device in each namespace.
const NAME: &[u8] = b"howdah0";
/// The request by which an open `/dev/net/tun` becomes a device: `_IOW('T', 202, int)`.
const TUNSETIFF: libc::c_ulong = 0x4004_54ca;

/// One end of the wire.
pub struct Device {
    file: File,
    address: Ipv4Addr,
}

impl Device {
    /// Makes the device in a namespace of `ip netns`. The caller stays in that namespace, which matters to nothing that
    /// it does later.
    pub fn open(namespace: &str, address: Ipv4Addr) -> Result<Self> {
        let place = File::open(format!("/run/netns/{namespace}"))?;
        // SAFETY: the descriptor is open for as long as the call lasts.
        if unsafe { libc::setns(place.as_raw_fd(), libc::CLONE_NEWNET) } != 0 {
            return Err(Error::last_os_error());
        }
        let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun")?;
        // SAFETY: all zero is a value of this plain C structure.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(NAME) {
            *to = from.cast_signed();
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
        // SAFETY: TUNSETIFF reads an ifreq, which lives until the call returns.
        if unsafe { libc::ioctl(file.as_raw_fd(), TUNSETIFF, &raw const request) } != 0 {
            return Err(Error::last_os_error());
        }
        Ok(Self { file, address })
    }

    /// Whether packets for this address leave here.
    pub fn is_at(&self, address: Ipv4Addr) -> bool {
        self.address == address
    }

    /// The length of the next packet, which is put at the start of `buffer`; None when there is none now.
    pub fn read(&self, buffer: &mut [u8]) -> Result<Option<usize>> {
        match (&self.file).read(buffer) {
            Ok(length) => Ok(Some(length)),
            // EIO: the device is not up yet.
            Err(error) if error.kind() == ErrorKind::WouldBlock || error.raw_os_error() == Some(libc::EIO) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Puts a packet out; one that the device does not take is lost.
    pub fn write(&self, packet: &[u8]) {
        let _ = (&self.file).write(packet);
    }
}

/// Nanoseconds of the clock that never goes back.
pub fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists on every Linux, and the structure is ours.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// Waits until a device has a packet, standard input has something, or the time `due` comes; says whether it is
/// standard input.
pub fn wait(devices: &[Device], due: Option<u64>) -> Result<bool> {
    let watched = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let mut polled: Vec<_> = devices.iter().map(|device| watched(device.file.as_raw_fd())).collect();
    polled.push(watched(libc::STDIN_FILENO));
    let left = due.map(|due| span(due.saturating_sub(now())));
    let timeout = left.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the array has as many entries as it is said to have, and the timeout outlives the call.
    let count = unsafe { libc::ppoll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, timeout, std::ptr::null()) };
    if count < 0 {
        let error = Error::last_os_error();
        return if error.kind() == ErrorKind::Interrupted { Ok(false) } else { Err(error) };
    }
    Ok(polled.last().is_some_and(|input| input.revents != 0))
}

/// Sleeps until a time.
pub fn sleep(until: u64) {
    let span = span(until);
    // SAFETY: the structure outlives the call; an early return by a signal does no harm.
    unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &raw const span, std::ptr::null_mut()) };
}

fn span(nanoseconds: u64) -> libc::timespec {
    libc::timespec {
        tv_sec: (nanoseconds / 1_000_000_000).cast_signed(),
        tv_nsec: (nanoseconds % 1_000_000_000).cast_signed(),
    }
}

/// Asks to be run before all usual programs, and to be woken without slack; does without where that is refused.
pub fn run_first() {
    let priority = libc::sched_param { sched_priority: 1 };
    // SAFETY: both calls only read their arguments.
    unsafe {
        libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const priority);
        libc::prctl(libc::PR_SET_TIMERSLACK, 1);
    }
}
