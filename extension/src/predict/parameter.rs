//! The type `pgml.features`: an array of features as a parameter without a type, or as a literal.
//!
//! A parameter without a type gets the one that PostgreSQL finds for the function. Were that text, a driver would refuse the
//! list that an application binds; were it real[], no literal could name a category. This type is a text that drivers, which
//! ask for the type of its elements, send an array for.

use pgrx::pg_sys;

use crate::error::Result;
use crate::sql::Call;

crate::sql_function!(pgml_features_receive, receive);
crate::sql_function!(pgml_features_subscript, subscript);

/// From the binary form of a real[]; the text form is that of a text, which is stored.
fn receive(call: &Call) -> Result<pg_sys::Datum> {
    let Some(message) = call.datum(0) else { return Ok(call.null()) };
    // SAFETY: a receive function is given a message; the functions are those of arrays, built in, and raise ERRORs of
    // their own. The shortest text of a real is read back as the same one.
    unsafe {
        let array =
            pg_sys::OidReceiveFunctionCall(pg_sys::F_ARRAY_RECV.into(), message.cast_mut_ptr(), pg_sys::FLOAT4OID, -1);
        let text = pg_sys::OidOutputFunctionCall(pg_sys::F_ARRAY_OUT.into(), array);
        Ok(pg_sys::Datum::from(pg_sys::cstring_to_text(text)))
    }
}

/// A type with elements has to say how they are picked: these are not, of which a null pointer tells PostgreSQL.
fn subscript(call: &Call) -> Result<pg_sys::Datum> {
    Ok(call.no_value())
}
