//! Sessions between clients and servers that share them: the simulation of `tests/simulation`, with a schedule that the
//! fuzzer makes. `HOWDAH_TRACE=1` tells what everybody says.

#![no_main]

use libfuzzer_sys::fuzz_target;
use simulation::schedule::{of_bytes, take};
use simulation::trace::tell_all;
use simulation::world::World;

fuzz_target!(|data: &[u8]| {
    if std::env::var_os("HOWDAH_TRACE").is_some() {
        tell_all();
    }
    let (setup, steps) = of_bytes(data);
    let mut world = World::new(&setup);
    for step in &steps {
        take(&mut world, step);
    }
    world.end();
});
