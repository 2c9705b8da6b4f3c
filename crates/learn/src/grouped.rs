//! Trains a model for each group of rows, side by side on threads, and one of all rows for all other groups.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use crate::Error;
use crate::family::{Control, Model, Problem};
use crate::forms::boosted;
use crate::forms::grouped::{self, Member};
use crate::signals;

/// Between two looks for the end of the training.
const PAUSE: Duration = Duration::from_millis(20);

/// How rows are grouped.
#[derive(Debug, Clone, Copy)]
pub struct Groups<'a> {
    /// The places, in order, of the features that tell a row's group: indexes of categories, NaN where there is none. Where
    /// [`Problem::one_hot`] says that a number stands for several features, places among the numbers of a row.
    pub at: &'a [usize],
    /// The same among the features of a finished row.
    pub finished: &'a [usize],
    /// Groups of fewer rows have no model of their own.
    pub least_rows: usize,
    /// How many models are trained side by side.
    pub threads: usize,
}

/// A model that XGBoost has saved, of classes or of numbers, as one of many.
pub fn of_xgboost(saved: Vec<u8>, classes: bool) -> Model {
    boosted::model(saved, classes)
}

/// What became of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Its features.
    pub key: Vec<u32>,
    /// Its training rows.
    pub rows: usize,
    /// Why it has no model of its own.
    pub without: Option<String>,
}

/// What trains one model; the features that tell the group are none of its problem's.
pub type Fit<'a> = &'a (dyn Fn(&Problem<'_>, &mut Control<'_>) -> Result<Model, Error> + Sync);

/// Trains the models. Gives the groups, in the order of their keys, too.
///
/// # Errors
/// Those of `fit`, of the model of all rows; where that of a group cannot be trained, the group has none.
pub fn fit(
    problem: &Problem<'_>,
    groups: &Groups<'_>,
    fit: Fit<'_>,
    control: &mut Control<'_>,
) -> Result<(Model, Vec<Group>), Error> {
    if groups.at.len() >= problem.row_numbers() {
        return Err(Error::Columns("there is no column to learn from but those of group_by".into()));
    }
    let members = members(problem, groups.at)?;
    let runs: Vec<&[Row]> = members.chunk_by(|a, b| a.key == b.key).collect();
    let runs: Vec<&[Row]> = runs.into_iter().filter(|run| !run[0].key.is_empty()).collect();
    let worth: Vec<usize> = (0..runs.len()).filter(|run| runs[*run].len() >= groups.least_rows.max(1)).collect();
    let all: Vec<usize> = (0..problem.rows).collect();
    // The model of all rows takes longest, and so is begun first.
    let job = |index: usize, control: &mut Control<'_>| match index.checked_sub(1) {
        None => one(problem, groups, &all, fit, control).map(Made::Model),
        Some(index) => {
            let rows: Vec<usize> = runs[worth[index]].iter().map(|member| member.row).collect();
            match one(problem, groups, &rows, fit, control) {
                Err(error @ (Error::Stopped(_) | Error::Memory)) => Err(error),
                Err(error) => Ok(Made::Not(error.to_string())),
                Ok(made) => Ok(Made::Model(made)),
            }
        }
    };
    let mut made = on_threads(worth.len() + 1, groups.threads, &job, control)?.into_iter();
    let Some(Made::Model((fallback, _))) = made.next() else { return Err(Error::NoRows("learn from")) };
    let (mut own, mut found) = (Vec::with_capacity(worth.len()), Vec::with_capacity(runs.len()));
    let mut warnings = fallback.warnings.clone();
    warnings.truncate(1);
    for run in runs {
        let (key, rows) = (run[0].key.clone(), run.len());
        let without = match rows >= groups.least_rows.max(1) {
            false => Some(format!("fewer than {} rows", groups.least_rows)),
            true => match made.next() {
                Some(Made::Model((model, classes))) => {
                    own.push(Member { key: key.clone(), model, classes });
                    None
                }
                Some(Made::Not(why)) => Some(why),
                None => Some("not trained".into()),
            },
        };
        found.push(Group { key, rows, without });
    }
    let mut model = grouped::model(groups.finished, problem.classes, own, fallback)?;
    model.warnings = warnings;
    Ok((model, found))
}

/// A row, and the features that tell its group: none where one is missing.
struct Row {
    key: Vec<u32>,
    row: usize,
}

/// All rows by their groups, those of a group in their order.
fn members(problem: &Problem<'_>, at: &[usize]) -> Result<Vec<Row>, Error> {
    let mut members = Vec::new();
    room::reserve(&mut members, problem.rows)?;
    let width = problem.row_numbers();
    for (row, features) in problem.features.chunks_exact(width).enumerate() {
        let code = |at: &usize| features.get(*at).filter(|code| **code >= 0.0).map(|code| *code as u32);
        let key = at.iter().map(code).collect::<Option<Vec<u32>>>().unwrap_or_default();
        members.push(Row { key, row });
    }
    members.sort_by(|a, b| a.key.cmp(&b.key));
    Ok(members)
}

/// What became of one training: a model, with the classes of its values; or why there is none.
enum Made {
    Model((Model, Vec<u32>)),
    Not(String),
}

/// Trains on some of the rows.
fn one(
    problem: &Problem<'_>,
    groups: &Groups<'_>,
    rows: &[usize],
    fit: Fit<'_>,
    control: &mut Control<'_>,
) -> Result<(Model, Vec<u32>), Error> {
    let width = problem.row_numbers();
    let kept = |place: &usize| !groups.at.contains(place);
    let (mut features, mut labels) = (Vec::new(), Vec::new());
    room::reserve(&mut features, rows.len() * (width - groups.at.len()))?;
    room::reserve(&mut labels, rows.len() * problem.targets)?;
    for row in rows {
        let numbers = &problem.features[row * width..(row + 1) * width];
        features.extend(numbers.iter().enumerate().filter(|(place, _)| kept(place)).map(|(_, value)| *value));
        labels.extend_from_slice(&problem.labels[row * problem.targets..(row + 1) * problem.targets]);
    }
    let weights: Option<Vec<f32>> = problem.weights.map(|all| rows.iter().map(|row| all[*row]).collect());
    if weights.as_ref().is_some_and(|weights| weights.iter().all(|weight| *weight == 0.0)) {
        return Err(Error::Task("the weights of all its rows are 0".into()));
    }
    let classes = own_classes(problem.classes, &mut labels)?;
    fn without<T: Copy>(all: &[T], places: &[usize]) -> Vec<T> {
        all.iter().enumerate().filter(|(place, _)| !places.contains(place)).map(|(_, value)| *value).collect()
    }
    let categories = without(problem.categories, groups.finished);
    let one_hot = without(problem.one_hot, groups.at);
    let own = Problem {
        rows: rows.len(),
        width: problem.width - groups.finished.len(),
        features: &features,
        labels: &labels,
        classes: if classes.is_empty() { problem.classes } else { classes.len() },
        weights: weights.as_deref(),
        categories: if categories.iter().any(Option::is_some) { &categories } else { &[] },
        one_hot: if one_hot.iter().any(|size| *size > 0) { &one_hot } else { &[] },
        ..*problem
    };
    fit(&own, control).map(|model| (model, classes))
}

/// Numbers the classes of some rows anew where they do not have all: gives them then.
fn own_classes(classes: usize, labels: &mut [f32]) -> Result<Vec<u32>, Error> {
    if classes == 0 {
        return Ok(Vec::new());
    }
    let mut numbers = vec![f32::NAN; classes];
    labels.iter().filter_map(|label| Some(*label as usize).filter(|class| *class < classes)).for_each(|class| {
        numbers[class] = 0.0;
    });
    let own: Vec<u32> = (0..classes as u32).filter(|class| !numbers[*class as usize].is_nan()).collect();
    match own.len() {
        0 | 1 => Err(Error::Task("all its rows are of one class".into())),
        some if some == classes => Ok(Vec::new()),
        _ => {
            own.iter().enumerate().for_each(|(number, class)| numbers[*class as usize] = number as f32);
            labels.iter_mut().for_each(|label| *label = numbers[*label as usize]);
            Ok(own)
        }
    }
}

/// Stops the threads, also where this one unwinds.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

type Job<'a, T> = &'a (dyn Fn(usize, &mut Control<'_>) -> Result<T, Error> + Sync);

/// What `job` gives for each index below `count`, on so many threads.
fn on_threads<T: Send>(
    count: usize,
    threads: usize,
    job: Job<'_, T>,
    control: &mut Control<'_>,
) -> Result<Vec<T>, Error> {
    let (next, stopped) = (AtomicUsize::new(0), AtomicBool::new(false));
    let work = |give: Sender<(usize, Result<T, Error>)>| {
        let mut ask = |_| if stopped.load(Ordering::Relaxed) { Err(Box::new(()) as crate::rows::Stop) } else { Ok(()) };
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count || stopped.load(Ordering::Relaxed) {
                return;
            }
            if give.send((index, job(index, &mut Control::new(&mut ask)))).is_err() {
                return;
            }
        }
    };
    let mut made: Vec<Option<T>> = Vec::new();
    room::reserve(&mut made, count)?;
    made.resize_with(count, || None);
    std::thread::scope(|scope| {
        let _stop = StopAtEnd(&stopped);
        let (give, take) = channel();
        signals::blocked(|| {
            for _ in 0..threads.clamp(1, count) {
                let (give, work) = (give.clone(), &work);
                scope.spawn(move || work(give));
            }
        });
        drop(give);
        let mut done = 0;
        loop {
            match take.recv_timeout(PAUSE) {
                Ok((index, result)) => {
                    made[index] = Some(result?);
                    done += 1;
                    control.progress(done, count as u64)?;
                }
                Err(RecvTimeoutError::Timeout) => control.check()?,
                Err(RecvTimeoutError::Disconnected) => return Ok::<(), Error>(()),
            }
        }
    })?;
    made.into_iter().collect::<Option<Vec<T>>>().ok_or(Error::Memory)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::families::{FAMILIES, fit as fit_family, testing};
    use crate::family::{Family, Predict, Task};
    use crate::forms;

    /// Rows of a group, x and its label 2 x + 10 group, and some of no group.
    fn rows(groups: usize, of_each: usize) -> (Vec<f32>, Vec<f32>) {
        let (mut features, mut labels) = (Vec::new(), Vec::new());
        for row in 0..groups * of_each {
            let (group, x) = (row % groups, (row / groups) as f32);
            features.extend([x, if group == 0 { f32::NAN } else { group as f32 }, (row % 5) as f32]);
            labels.push(x * group as f32 + 10.0 * (row % 5) as f32);
        }
        (features, labels)
    }

    fn family(name: &str, task: Task) -> &'static Family {
        FAMILIES.iter().find(|family| family.name == name && family.task == task).unwrap()
    }

    fn groups(least_rows: usize, threads: usize) -> Groups<'static> {
        Groups { at: &[1], finished: &[1], least_rows, threads }
    }

    fn train(problem: &Problem<'_>, groups: &Groups<'_>, name: &str) -> Result<(Box<dyn Predict>, Vec<Group>), Error> {
        let task = if problem.classes > 0 { Task::Classification } else { Task::Regression };
        let family = family(name, task);
        let given = testing::given(family, "{}")?;
        let mut ask = |_| Ok(());
        let fit_one = |problem: &Problem<'_>, control: &mut Control<'_>| fit_family(family, problem, &given, control);
        let (model, found) = fit(problem, groups, &fit_one, &mut Control::new(&mut ask))?;
        let stored = forms::stored_of(&model)?;
        forms::check(&stored)?;
        Ok((forms::open(&stored)?, found))
    }

    #[test]
    fn each_row_is_predicted_by_the_model_of_its_group() {
        let (features, labels) = rows(4, 50);
        let problem = testing::regression(&features, 3, &labels);
        for threads in [1, 3] {
            let (model, found) = train(&problem, &groups(2, threads), "linear").unwrap();
            assert_eq!(found.iter().map(|group| group.key[0]).collect::<Vec<_>>(), [1, 2, 3]);
            assert!(found.iter().all(|group| group.rows == 50 && group.without.is_none()));
            let mut values = vec![0.0; 200];
            model.predict_rows(&features, &mut values);
            for (row, (value, label)) in features.chunks_exact(3).zip(values.iter().zip(&labels)) {
                let mut one = [0.0];
                model.predict(row, &mut one);
                assert_eq!(one[0], *value);
                assert!(row[1].is_nan() || (value - label).abs() < 1e-3, "{row:?}: {value}, {label}");
            }
            // What is no group is predicted as what is missing.
            let of = |group: f32| {
                let mut value = [0.0];
                model.predict(&[7.0, group, 1.0], &mut value);
                value[0]
            };
            assert_eq!(of(f32::NAN), of(77.0));
            assert_eq!(of(f32::NAN), of(0.0));
            let mut contributions = [0.0; 4];
            assert!(model.contributions(&[7.0, 3.0, 1.0], &mut contributions));
            assert_eq!(contributions[1], 0.0);
            assert!((contributions.iter().sum::<f32>() - of(3.0)).abs() < 1e-3);
        }
    }

    #[test]
    fn small_groups_have_no_model() {
        let (mut features, mut labels) = rows(3, 40);
        features.extend([1.0, 9.0, 1.0]);
        labels.push(5.0);
        let problem = testing::regression(&features, 3, &labels);
        let (_, found) = train(&problem, &groups(2, 2), "linear").unwrap();
        assert_eq!(found.last().unwrap().without.as_deref(), Some("fewer than 2 rows"));
        assert_eq!(found.len(), 3);
    }

    #[test]
    fn a_group_knows_the_classes_of_its_rows() {
        let mut features = Vec::new();
        let mut labels = Vec::new();
        for row in 0..300_u32 {
            let (group, x) = (row % 3, (row / 3) as f32);
            features.extend([x, group as f32, (row % 7) as f32]);
            // Group 0 has classes 0 and 2, group 1 all three, group 2 class 1 alone.
            labels.push(match group {
                0 => {
                    if x > 50.0 {
                        2.0
                    } else {
                        0.0
                    }
                }
                1 => (x / 34.0).floor().min(2.0),
                _ => 1.0,
            });
        }
        let problem = testing::classification(&features, 3, &labels);
        for name in ["naive_bayes", "ridge", "random_forest"] {
            let (model, found) = train(&problem, &groups(2, 2), name).unwrap();
            assert_eq!(found[2].without.as_deref(), Some("all its rows are of one class"), "{name}");
            let mut values = vec![0.0; 900];
            model.predict_rows(&features, &mut values);
            for (row, values) in features.chunks_exact(3).zip(values.chunks_exact(3)) {
                if row[1] == 0.0 {
                    assert!(values[1] <= 0.0 && values[1] < values[0].max(values[2]), "{name} {values:?}");
                }
            }
        }
    }

    #[test]
    fn a_training_that_is_stopped_ends_its_threads() {
        let (features, labels) = rows(4, 50);
        let problem = testing::regression(&features, 3, &labels);
        let begun = AtomicUsize::new(0);
        let slow = |_: &Problem<'_>, control: &mut Control<'_>| {
            begun.fetch_add(1, Ordering::Relaxed);
            loop {
                control.check()?;
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        let mut ask =
            |_| if begun.load(Ordering::Relaxed) > 0 { Err(Box::new("enough") as crate::rows::Stop) } else { Ok(()) };
        let stopped = fit(&problem, &groups(2, 2), &slow, &mut Control::new(&mut ask)).err().unwrap();
        let Error::Stopped(why) = stopped else { panic!("{stopped}") };
        assert_eq!(why.downcast_ref::<&str>(), Some(&"enough"));
        assert!(begun.load(Ordering::Relaxed) <= 2);
    }
}
