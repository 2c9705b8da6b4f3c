//! Long computations that ask nobody whether to go on, such as those of dense algebra: on a thread of their own, so that
//! a training that is to end does not wait for them.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use crate::Error;
use crate::family::Control;
use crate::signals;

/// Multiplications that take no longer than a look for the end of the training may.
const FEW: f64 = 1e7;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// Room for the recursion of dense algebra.
const STACK: usize = 8 << 20;

/// Whether a thread found no memory, and rests with what it has.
static FAILED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Whether a computation of this thread's trainings is under way, which may be one that nobody waits for any more.
    static BUSY: Arc<AtomicBool> = Arc::default();
}

/// Marks the thread as busy until it is dropped.
struct Busy(Arc<AtomicBool>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// The result of `work`, which needs about `multiplications` multiplications and owns its input.
///
/// Where the training is to end meanwhile, the thread goes on alone, and what it gives is dropped. There is one at a
/// time: the next computation waits for it.
///
/// # Errors
/// [`Error::Stopped`] where the training is to end, [`Error::Memory`] where there is no thread to be had, or no memory for it.
pub(crate) fn on_helper_thread<T: Send + 'static>(
    multiplications: f64,
    control: &mut Control<'_>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    if multiplications <= FEW {
        return Ok(work());
    }
    let busy = BUSY.with(Arc::clone);
    while busy.swap(true, Ordering::Acquire) {
        thread::sleep(PAUSE);
        control.check()?;
    }
    let busy = Busy(busy);
    let (give, take) = sync_channel(1);
    let computation = move || {
        room::rest_on_failure(&FAILED);
        let outcome = catch_unwind(AssertUnwindSafe(work));
        drop(busy);
        // Nobody may be there to take it, or to give back what it took.
        if give.send(outcome).is_err() {
            give_back();
        }
    };
    signals::blocked(|| thread::Builder::new().stack_size(STACK).spawn(computation)).map_err(|_| Error::Memory)?;
    loop {
        match take.recv_timeout(PAUSE) {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(panic)) => resume_unwind(panic),
            Err(RecvTimeoutError::Timeout) if FAILED.swap(false, Ordering::Acquire) => {
                BUSY.with(|busy| busy.store(false, Ordering::Release));
                return Err(Error::Memory);
            }
            Err(RecvTimeoutError::Timeout) => control.check()?,
            Err(RecvTimeoutError::Disconnected) => return Err(Error::Memory),
        }
    }
}

/// Has the C library give freed memory back to the system.
fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: the C library's own function, which takes its locks; nothing that is in use is touched.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::families::fit;
    use crate::families::linear::bayesian;
    use crate::families::linear::least_squares;
    use crate::families::linear::ridge;
    use crate::families::principal;
    use crate::families::testing::{given, regression};
    use crate::random::Random;
    use crate::rows::Stop;

    #[test]
    fn dense_algebra_of_a_training_ends_with_it() {
        let (rows, width) = (500, 500);
        let mut random = Random::new(5);
        let features: Vec<f32> = (0..rows * width).map(|_| random.normal() as f32).collect();
        let labels: Vec<f32> = (0..rows).map(|_| random.normal() as f32).collect();
        let problem = regression(&features, width, &labels);
        for family in [&least_squares::LINEAR, &principal::PCA, &principal::TRUNCATED_SVD, &bayesian::RIDGE] {
            // Before the algebra there are fewer looks; it takes many pauses.
            let mut checks = 0;
            let mut ask = |_| {
                checks += 1;
                if checks < 12 { Ok(()) } else { Err(Box::new("cancelled") as Stop) }
            };
            let ended = fit(family, &problem, &given(family, "{}").unwrap(), &mut Control::new(&mut ask));
            assert!(matches!(ended, Err(Error::Stopped(_))), "{}", family.name);
        }
    }

    #[test]
    fn a_factor_of_many_features_ends_with_its_training() {
        let size = 1200;
        let mut random = Random::new(5);
        let features: Vec<f32> = (0..size * size).map(|_| random.normal() as f32).collect();
        let labels: Vec<f32> = (0..size).map(|_| random.normal() as f32).collect();
        let problem = regression(&features, size, &labels);
        let mut checks = 0;
        let mut ask = |_| {
            checks += 1;
            if checks < 12 { Ok(()) } else { Err(Box::new("cancelled") as Stop) }
        };
        let given = given(&ridge::RIDGE, "{}").unwrap();
        let ended = fit(&ridge::RIDGE, &problem, &given, &mut Control::new(&mut ask));
        assert!(matches!(ended, Err(Error::Stopped(_))));
    }

    #[test]
    fn a_training_ends_though_its_algebra_goes_on() {
        let (go_on, until) = channel::<()>();
        let mut checks = 0;
        let mut ask = |_| {
            checks += 1;
            if checks < 3 { Ok(()) } else { Err(Box::new("cancelled") as Stop) }
        };
        // It ends when this test says so, which is after the training has ended.
        let ended = on_helper_thread(f64::INFINITY, &mut Control::new(&mut ask), move || until.recv().is_ok());
        assert!(matches!(ended, Err(Error::Stopped(_))));
        assert_eq!(checks, 3);

        // The next one waits for it, and can be ended while it waits.
        let mut ask = |_| Err(Box::new("cancelled") as Stop);
        let ended = on_helper_thread(f64::INFINITY, &mut Control::new(&mut ask), || 1);
        assert!(matches!(ended, Err(Error::Stopped(_))));
        go_on.send(()).unwrap();
        let mut ask = |_| Ok(());
        assert_eq!(on_helper_thread(f64::INFINITY, &mut Control::new(&mut ask), || 2).unwrap(), 2);
        assert_eq!(on_helper_thread(1.0, &mut Control::new(&mut ask), || 3).unwrap(), 3);
    }

    #[test]
    fn a_panic_comes_back() {
        let mut ask = |_| Ok(());
        let panic = catch_unwind(AssertUnwindSafe(|| {
            on_helper_thread(f64::INFINITY, &mut Control::new(&mut ask), || panic!("on purpose"))
        }));
        assert!(panic.is_err());
    }
}
