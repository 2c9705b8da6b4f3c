//! Support vector machines, as in `sklearn.svm`.

pub(crate) mod libsvm;
pub(crate) mod linear_svm;
pub(crate) mod smo;
