//! The methods that asyncio calls: a buffered protocol, which lends the transport its own memory to read into.

use std::ffi::c_int;
use std::sync::atomic::Ordering;

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyType};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU64};
use wire::certificate::Certificate;

use super::in_flight::{InFlight, Verb};
use super::login::Login;
use super::settings::ConnectionSettings;
use super::{Reading, Session, Writing};

#[pymethods]
impl Session {
    /// A session that begins when it is given a transport.
    ///
    /// `params` says who logs in to what, as `connect_utils` has found it out; `connected` is a future.
    #[new]
    #[pyo3(signature = (addr, connected_fut, con_params, record_class, r#loop))]
    fn new(
        py: Python<'_>,
        addr: Py<PyAny>,
        connected_fut: Py<PyAny>,
        con_params: Py<PyAny>,
        record_class: Py<PyType>,
        r#loop: Py<PyAny>,
    ) -> PyResult<Self> {
        Ok(Self {
            reading: Mutex::new(Reading::default()),
            writing: Mutex::new(Writing::default()),
            settings: Py::new(py, ConnectionSettings::new(py))?,
            loop_: r#loop,
            connected: Mutex::new(Some(connected_fut)),
            closed: Mutex::new(None),
            params: con_params,
            addr,
            record_class,
            connection: Mutex::new(None),
            cache: PyDict::new(py).unbind(),
            status: AtomicU8::new(b'I'),
            beginning: AtomicI32::new(0),
            is_closing: AtomicBool::new(false),
            is_connected: AtomicBool::new(false),
            is_ssl: AtomicBool::new(false),
            paused_writing: AtomicBool::new(false),
            paused_reading: AtomicBool::new(false),
            cancelling: AtomicBool::new(false),
            cancel_waiters: Mutex::new(None),
            socket: AtomicI32::new(-1),
            pid: AtomicI32::new(0),
            secret: Mutex::new(Vec::new()),
            queries: AtomicU64::new(0),
            copied: AtomicU64::new(0),
            changed: AtomicBool::new(false),
            prepared: AtomicBool::new(false),
            auth_received: AtomicBool::new(false),
            generation: super::fork::generation(),
        })
    }

    /// Called by the transport when the connection stands: sends the startup packet.
    fn connection_made(slf: &Bound<'_, Self>, transport: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let info = |name| transport.call_method1(intern!(py, "get_extra_info"), (name,));
        let tls = info("ssl_object")?;
        this.is_ssl.store(!tls.is_none(), Ordering::Relaxed);
        let socket = info("socket")?;
        if !socket.is_none() {
            let module = py.import("socket")?;
            let unix = module.getattr_opt("AF_UNIX")?;
            let family = socket.getattr("family")?;
            if unix.is_none_or(|unix| !family.eq(&unix).unwrap_or(false)) {
                let option = (module.getattr("IPPROTO_TCP")?, module.getattr("TCP_NODELAY")?, 1);
                socket.call_method1("setsockopt", option)?;
            }
            if tls.is_none() {
                this.socket.store(socket.call_method0("fileno")?.extract()?, Ordering::Relaxed);
            }
        }
        let params = this.params.bind(py);
        let text = |name: &str| -> PyResult<Option<String>> {
            let value = params.getattr(name)?;
            if value.is_none() { Ok(None) } else { Ok(Some(value.str()?.to_str()?.to_owned())) }
        };
        let user = text("user")?.unwrap_or_default();
        let password = text("password")?.unwrap_or_default().into_bytes();
        let binding = super::login::binding(text("channel_binding")?.as_deref());
        let required: Option<Vec<String>> = params.getattr("require_auth")?.extract()?;
        let required = required.unwrap_or_default();
        let mut parameters = vec![
            ("client_encoding".to_owned(), "utf-8".to_owned()),
            ("user".to_owned(), user.clone()),
            ("database".to_owned(), text("database")?.unwrap_or_default()),
        ];
        let settings = params.getattr("server_settings")?;
        if !settings.is_none() {
            for pair in settings.call_method0("items")?.try_iter()? {
                let (name, value): (String, Bound<'_, PyAny>) = pair?.extract()?;
                let value = value.str()?.to_str()?.to_owned();
                match parameters.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, place)) => *place = value,
                    None => parameters.push((name, value)),
                }
            }
        }
        this.reading()?.login = Login::new(user, password, end_point(&tls)?, binding, required);
        let mut writing = this.writing()?;
        writing.transport = Some(transport.clone().unbind());
        let pairs = parameters.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        wire::startup::write_startup(&mut writing.out, pairs);
        writing.flights.push_back(InFlight::unasked(Verb::Startup));
        writing.pending += 1;
        Self::flush(slf, &mut writing)
    }

    /// Memory for the transport to read into: this object itself where the transport reads with `recv_into`.
    fn get_buffer<'py>(slf: &Bound<'py, Self>, sizehint: isize) -> PyResult<Bound<'py, PyAny>> {
        let _ = sizehint;
        if slf.get().is_ssl.load(Ordering::Relaxed) {
            // TLS transports slice and measure what they are given.
            // SAFETY: this object gives out its buffer; the result is new or null with an error.
            return unsafe { Bound::from_owned_ptr_or_err(slf.py(), ffi::PyMemoryView_FromObject(slf.as_ptr())) };
        }
        Ok(slf.clone().into_any())
    }

    /// The first `nbytes` of the buffer have come.
    fn buffer_updated(slf: &Bound<'_, Self>, nbytes: usize) -> PyResult<()> {
        slf.get().reading()?.inbox.filled(nbytes);
        Session::receive(slf)
    }

    /// Bytes have come by another way than the buffer.
    fn data_received(slf: &Bound<'_, Self>, data: &[u8]) -> PyResult<()> {
        slf.get().reading()?.inbox.feed(data);
        Session::receive(slf)
    }

    fn __len__(&self) -> PyResult<usize> {
        Ok(self.reading()?.inbox.space().len())
    }

    fn __bool__(&self) -> bool {
        true
    }

    fn eof_received(&self) -> Option<bool> {
        None
    }

    /// The transport wants no more bytes for now.
    fn pause_writing(&self) {
        self.paused_writing.store(true, Ordering::Relaxed);
    }

    /// The transport takes bytes again.
    fn resume_writing(slf: &Bound<'_, Self>) -> PyResult<()> {
        let this = slf.get();
        this.paused_writing.store(false, Ordering::Relaxed);
        Session::go_on(slf)
    }

    /// Called by the transport when the connection is gone.
    fn connection_lost(slf: &Bound<'_, Self>, exc: Option<Bound<'_, PyAny>>) -> PyResult<()> {
        Session::lost(slf, exc)
    }

    /// Gives the transport the free end of the inbox.
    ///
    /// # Safety
    /// Called by the interpreter with a valid view.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let mut reading = slf.get().reading()?;
        let space = reading.inbox.space();
        let length = ffi::Py_ssize_t::try_from(space.len())?;
        // SAFETY: the view is valid; the memory stays where it is until bytes are taken from the inbox, which happens
        // only after the transport has said that it has written them (and then it writes no more into this view).
        let failed = unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), space.as_mut_ptr().cast(), length, 0, flags) };
        if failed != 0 {
            return Err(PyErr::take(slf.py()).unwrap_or_else(|| PyBufferError::new_err("no buffer")));
        }
        Ok(())
    }
}

/// The hash of the server's certificate to which SCRAM binds the exchange.
fn end_point(tls: &Bound<'_, PyAny>) -> PyResult<Option<Vec<u8>>> {
    if tls.is_none() {
        return Ok(None);
    }
    let certificate = tls.call_method1("getpeercert", (true,))?;
    let Ok(certificate) = certificate.cast::<PyBytes>() else { return Ok(None) };
    Ok(Certificate::read(certificate.as_bytes()).and_then(|certificate| certificate.end_point()))
}
