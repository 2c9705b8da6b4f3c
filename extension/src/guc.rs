//! Settings of the extension.

use std::ffi::{CStr, CString};

use pgrx::{GucContext, GucFlags, GucRegistry, GucSetting, PostgresGucEnum, pg_sys};

static XGBOOST_LIBRARY: GucSetting<Option<CString>> =
    GucSetting::<Option<CString>>::new(Some(c"$libdir/pgml/xgboost/lib/libxgboost.so"));
static LIGHTGBM_LIBRARY: GucSetting<Option<CString>> =
    GucSetting::<Option<CString>>::new(Some(c"$libdir/pgml/lightgbm/lib/lib_lightgbm.so"));
static CACHE_SIZE: GucSetting<i32> = GucSetting::<i32>::new(4096);
static BACKGROUND_TRAININGS: GucSetting<i32> = GucSetting::<i32>::new(1);
static QUEUED_TRAININGS: GucSetting<i32> = GucSetting::<i32>::new(100);
static KEEP_JOBS: GucSetting<i32> = GucSetting::<i32>::new(30);
static OMP_NUM_THREADS: GucSetting<i32> = GucSetting::<i32>::new(1);
static STRICT: GucSetting<bool> = GucSetting::<bool>::new(false);
static REFIT: GucSetting<Refit> = GucSetting::<Refit>::new(Refit::Auto);

/// Whether trainings that do not say so fit the model again on all rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PostgresGucEnum)]
pub enum Refit {
    /// Where it costs little.
    #[name = c"auto"]
    Auto,
    #[name = c"on"]
    On,
    #[name = c"off"]
    Off,
}

/// Defines the settings; called once, when the library is loaded.
#[expect(clippy::too_many_lines, reason = "a list")]
pub fn define() {
    GucRegistry::define_string_guc(
        c"pgml.xgboost_library",
        c"Path of the XGBoost library that trains.",
        c"$libdir at the start stands for the server's library directory. Predictions do not need the library.",
        &XGBOOST_LIBRARY,
        // A path that is loaded into the server runs code in it.
        GucContext::Suset,
        GucFlags::default(),
    );
    GucRegistry::define_string_guc(
        c"pgml.lightgbm_library",
        c"Path of the LightGBM library that trains.",
        c"$libdir at the start stands for the server's library directory. Predictions do not need the library.",
        &LIGHTGBM_LIBRARY,
        GucContext::Suset,
        GucFlags::default(),
    );
    GucRegistry::define_int_guc(
        c"pgml.omp_num_threads",
        c"Threads of a training by XGBoost whose hyperparameters give no nthread.",
        c"",
        &OMP_NUM_THREADS,
        1,
        1024,
        GucContext::Userset,
        GucFlags::default(),
    );
    GucRegistry::define_int_guc(
        c"pgml.cache_size",
        c"Size of all compiled models in pgml_cache together, in megabytes.",
        c"When this size is reached, the models that were not used for longest are removed, and are compiled again when they are used.",
        &CACHE_SIZE,
        0,
        i32::MAX,
        // All connections share the cache, so no one of them decides.
        GucContext::Sighup,
        GucFlags::UNIT_MB,
    );
    GucRegistry::define_int_guc(
        c"pgml.background_trainings",
        c"Trainings by pgml.train_async that run at once in a database; more wait in its queue.",
        c"With 0 all trainings wait. Each training takes a background worker of max_worker_processes, and the queue takes one more.",
        &BACKGROUND_TRAININGS,
        0,
        1024,
        GucContext::Sighup,
        GucFlags::default(),
    );
    GucRegistry::define_int_guc(
        c"pgml.queued_trainings",
        c"Trainings by pgml.train_async that a role may have waiting in a database.",
        c"A further training is refused. The limit does not apply to superusers.",
        &QUEUED_TRAININGS,
        0,
        i32::MAX,
        GucContext::Sighup,
        GucFlags::default(),
    );
    GucRegistry::define_int_guc(
        c"pgml.keep_jobs",
        c"Days for which pgml.jobs shows trainings that have ended.",
        c"Older jobs are removed when another training is put into the queue.",
        &KEEP_JOBS,
        0,
        36500,
        GucContext::Sighup,
        GucFlags::default(),
    );
    GucRegistry::define_bool_guc(
        c"pgml.strict",
        c"Whether a training refuses what it would otherwise prepare or leave out by itself.",
        c"If off, missing values are imputed where the algorithm takes none, and keys, text of unique values and rows without a label are left out, the latter in pgml.evaluate and its like too; a notice names them.",
        &STRICT,
        GucContext::Userset,
        GucFlags::default(),
    );
    GucRegistry::define_enum_guc(
        c"pgml.refit",
        c"Whether trainings whose argument refit is NULL fit the model again on all rows once its score is known.",
        c"With auto, they do so where that costs little.",
        &REFIT,
        GucContext::Userset,
        GucFlags::default(),
    );
    // SAFETY: called from _PG_init, on the backend's main thread; the prefix is a static C string.
    unsafe {
        #[cfg(not(any(feature = "pg13", feature = "pg14")))]
        pg_sys::MarkGUCPrefixReserved(c"pgml".as_ptr());
        #[cfg(any(feature = "pg13", feature = "pg14"))]
        pg_sys::EmitWarningsOnPlaceholders(c"pgml".as_ptr());
    }
}

/// Path of XGBoost's library, `$libdir` replaced.
pub fn xgboost_library() -> String {
    path(&XGBOOST_LIBRARY)
}

/// Path of LightGBM's library, `$libdir` replaced.
pub fn lightgbm_library() -> String {
    path(&LIGHTGBM_LIBRARY)
}

fn path(setting: &GucSetting<Option<CString>>) -> String {
    let path = setting.get().map(|path| path.to_string_lossy().into_owned()).unwrap_or_default();
    match path.strip_prefix("$libdir") {
        Some(rest) if rest.starts_with('/') => {
            // SAFETY: a NUL-terminated array that the server fills before any extension is loaded and never changes.
            let libdir = unsafe { CStr::from_ptr((&raw const pg_sys::pkglib_path).cast()) };
            format!("{}{rest}", libdir.to_string_lossy())
        }
        _ => path,
    }
}

/// Threads of a training, at least 1.
pub fn omp_num_threads() -> i32 {
    OMP_NUM_THREADS.get()
}

/// Whether a training refuses what it would otherwise prepare or leave out by itself.
pub fn strict() -> bool {
    STRICT.get()
}

/// Whether trainings that do not say so fit the model again on all rows.
pub fn refit() -> Refit {
    REFIT.get()
}

/// Trainings in the background that run at once in a database.
pub fn background_trainings() -> usize {
    usize::try_from(BACKGROUND_TRAININGS.get()).unwrap_or(0)
}

/// Trainings in the background that may wait for a role.
pub fn queued_trainings() -> i32 {
    QUEUED_TRAININGS.get()
}

/// Days for which trainings that have ended are remembered.
pub fn keep_jobs() -> i32 {
    KEEP_JOBS.get()
}

/// Bytes that all compiled models together may have.
pub fn cache_bytes() -> u64 {
    u64::try_from(CACHE_SIZE.get()).unwrap_or(0) << 20
}
