//! The messages of a client, appended to the bytes to be sent.

use wire::frame;

/// Appends Parse: `sql` becomes the statement `name`, of which the server infers the parameters' types.
pub fn parse(out: &mut Vec<u8>, name: &[u8], sql: &[u8]) {
    parse_as(out, name, sql, &[]);
}

/// Appends Parse with the types of parameters; the server infers those that are 0 or not given.
pub fn parse_as(out: &mut Vec<u8>, name: &[u8], sql: &[u8], types: &[u32]) {
    frame::write(out, b'P', |out| {
        frame::write_cstr(out, name);
        frame::write_cstr(out, sql);
        out.extend_from_slice(&(types.len() as u16).to_be_bytes());
        for oid in types {
            out.extend_from_slice(&oid.to_be_bytes());
        }
    });
}

/// Appends Describe of a statement.
pub fn describe_statement(out: &mut Vec<u8>, name: &[u8]) {
    target(out, b'D', b'S', name);
}

/// Appends Close of a statement.
pub fn close_statement(out: &mut Vec<u8>, name: &[u8]) {
    target(out, b'C', b'S', name);
}

/// Appends Close of a portal.
pub fn close_portal(out: &mut Vec<u8>, name: &[u8]) {
    target(out, b'C', b'P', name);
}

fn target(out: &mut Vec<u8>, tag: u8, kind: u8, name: &[u8]) {
    frame::write(out, tag, |out| {
        out.push(kind);
        frame::write_cstr(out, name);
    });
}

/// Appends Execute; at most `limit` rows, 0 for all.
pub fn execute(out: &mut Vec<u8>, portal: &[u8], limit: u32) {
    frame::write(out, b'E', |out| {
        frame::write_cstr(out, portal);
        out.extend_from_slice(&limit.to_be_bytes());
    });
}

/// Appends Sync, behind which the server answers that it is ready.
pub fn sync(out: &mut Vec<u8>) {
    out.extend_from_slice(b"S\0\0\0\x04");
}

/// Appends Query: one or more commands as text.
pub fn query(out: &mut Vec<u8>, sql: &[u8]) {
    frame::write(out, b'Q', |out| frame::write_cstr(out, sql));
}

/// Appends Terminate.
pub fn terminate(out: &mut Vec<u8>) {
    out.extend_from_slice(b"X\0\0\0\x04");
}

/// Appends one CopyData.
pub fn copy_data(out: &mut Vec<u8>, data: &[u8]) {
    frame::write(out, b'd', |out| out.extend_from_slice(data));
}

/// Appends CopyDone.
pub fn copy_done(out: &mut Vec<u8>) {
    out.extend_from_slice(b"c\0\0\0\x04");
}

/// Appends CopyFail.
pub fn copy_fail(out: &mut Vec<u8>, why: &str) {
    frame::write(out, b'f', |out| frame::write_cstr(out, why.as_bytes()));
}

/// Appends a password, or any answer in an authentication exchange.
pub fn password(out: &mut Vec<u8>, bytes: &[u8]) {
    frame::write(out, b'p', |out| out.extend_from_slice(bytes));
}
