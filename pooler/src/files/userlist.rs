//! PgBouncer's users file: a line for each user, `"name" "password"`, with `""` for a quote inside; `;` or `#` begin
//! comments.

/// Reads the file: pairs of a name and a stored password.
pub fn read(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut users = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim_start();
        if !line.starts_with('"') {
            if line.is_empty() || line.starts_with([';', '#']) {
                continue;
            }
            return Err(format!("line {}: expected \"user\" \"password\"", number + 1));
        }
        let broken = || format!("line {}: a quote is not closed", number + 1);
        let (name, rest) = quoted(line).ok_or_else(broken)?;
        let rest = rest.trim_start();
        let password = if rest.starts_with('"') { quoted(rest).ok_or_else(broken)?.0 } else { String::new() };
        users.push((name, password));
    }
    Ok(users)
}

/// The quoted text at the start of `line` and what follows it.
fn quoted(line: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut rest = line.strip_prefix('"')?;
    loop {
        let (part, after) = rest.split_once('"')?;
        value.push_str(part);
        match after.strip_prefix('"') {
            Some(next) => {
                value.push('"');
                rest = next;
            }
            None => return Some((value, after)),
        }
    }
}
