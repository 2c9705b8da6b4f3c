//! `inet` and `cidr`: family, prefix, a flag, the address; as the classes of `ipaddress`.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::Context;
use super::python::{self, Done, OrRaise, Raised, Value, value_error};
use super::reader::Reader;

/// PostgreSQL's own numbers for the families, the same on every system.
const FAMILY_V4: u8 = 2;
const FAMILY_V6: u8 = 3;

/// An address, an interface (an address with a shorter prefix) or a network.
pub fn decode<'py>(cx: &Context<'_, 'py>, network: bool, data: &[u8]) -> Value<'py> {
    let py = cx.py;
    let mut reader = Reader::new(data);
    let (family, prefix) = (reader.u8(py)?, reader.u8(py)?);
    let (flag, size) = (reader.u8(py)?, reader.u8(py)?);
    let name = if flag != 0 { "cidr" } else { "inet" };
    if flag != u8::from(network) {
        return Err(value_error(py, "unexpected CIDR flag set in non-cidr value"));
    }
    let longest = match family {
        FAMILY_V4 => 32,
        FAMILY_V6 => 128,
        _ => return Err(value_error(py, format!("invalid address family in \"{name}\" value"))),
    };
    if prefix > longest {
        return Err(value_error(py, format!("invalid network prefix length in \"{name}\" value")));
    }
    if size != longest / 8 {
        return Err(value_error(py, format!("invalid address length in \"{name}\" value")));
    }
    let address = python::bytes(py, reader.take(py, size.into())?)?;
    reader.end(py)?;
    if network {
        return cx.imports.ip_network.bind(py).call1(((address, prefix),)).or_raise(py);
    }
    if prefix != longest {
        return cx.imports.ip_interface.bind(py).call1(((address, prefix),)).or_raise(py);
    }
    let class = if family == FAMILY_V4 { &cx.imports.ipv4_address } else { &cx.imports.ipv6_address };
    python::call_one(class.bind(py), &address)
}

/// Appends an address, or an address with a prefix; whatever `ipaddress` understands.
pub fn encode_inet(cx: &Context<'_, '_>, value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Done {
    let py = cx.py;
    match python::call_one(cx.imports.ip_address.bind(py), value) {
        Ok(address) => {
            let longest = if version(&address)? == 4 { 32 } else { 128 };
            put(&address, longest, false, &address.getattr("packed").or_raise(py)?, out)
        }
        Err(raised) => {
            let err = raised.into_err(py);
            if !err.is_instance_of::<PyValueError>(py) {
                return Err(Raised::from_err(py, err));
            }
            let interface = python::call_one(cx.imports.ip_interface.bind(py), value)?;
            let prefix = interface.getattr("network").and_then(|network| network.getattr("prefixlen"));
            let prefix = prefix.and_then(|prefix| prefix.extract::<u8>()).or_raise(py)?;
            put(&interface, prefix, true, &interface.getattr("packed").or_raise(py)?, out)
        }
    }
}

/// Appends a network.
pub fn encode_cidr(cx: &Context<'_, '_>, value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Done {
    let py = cx.py;
    let network = python::call_one(cx.imports.ip_network.bind(py), value)?;
    let prefix = network.getattr("prefixlen").and_then(|prefix| prefix.extract::<u8>()).or_raise(py)?;
    let packed = network.getattr("network_address").and_then(|address| address.getattr("packed")).or_raise(py)?;
    put(&network, prefix, true, &packed, out)
}

fn version(address: &Bound<'_, PyAny>) -> Result<u8, Raised> {
    let py = address.py();
    address.getattr("version").and_then(|version| version.extract()).or_raise(py)
}

fn put(of: &Bound<'_, PyAny>, prefix: u8, network: bool, packed: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Done {
    let (family, size) = if version(of)? == 4 { (FAMILY_V4, 4) } else { (FAMILY_V6, 16) };
    out.extend_from_slice(&[family, prefix, network.into(), size]);
    python::append_buffer(packed, out).map(|_| ())
}
