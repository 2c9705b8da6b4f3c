//! The library's messages, rewritten for users of a database.

/// The first sentence or so of an error or a log line, without time, source file, checked condition, stack trace and
/// help text.
///
/// The library's texts have one of these shapes:
/// * `[01:13:49] /src/x.cc:35: text` + stack trace,
/// * `[01:13:49] /src/x.cc:24: Check failed: condition (1 vs. 2) : text` + stack trace, the text perhaps empty,
/// * `value -1 for Parameter max_depth should be ...` + a line that explains the parameter.
pub(crate) fn clean(raw: &str) -> String {
    let text = raw.split("\nStack trace:").next().unwrap_or(raw).trim();
    let text = without_origin(text);
    let (text, condition) = without_check(text);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let mut message = match lines.as_slice() {
        [] if condition.is_empty() => "the library refused without a reason".to_string(),
        [] => format!("the library found that {} does not hold", condition.trim()),
        [one] => (*one).to_string(),
        // A parameter's help or a list of alternatives follows the first line; "Parameters: { x } are not used" is
        // preceded by an empty one, which is gone already.
        [first, ..] => (*first).to_string(),
    };
    while message.ends_with(['.', ':', ' ']) {
        message.pop();
    }
    // A sentence starts in lower case here, a name in capitals (`QuantileDMatrix`, `AUC`) stays as it is.
    let mut chars = message.chars();
    if let (Some(first), Some(second)) = (chars.next(), chars.next())
        && first.is_uppercase()
        && (second.is_lowercase() || second == ' ')
        && !message.starts_with("Quantile")
    {
        message = first.to_lowercase().chain(message.chars().skip(1)).collect();
    }
    message
}

/// Drops `[hh:mm:ss] ` and, behind it, `WARNING: ` and `/path/file.cc:123: `.
fn without_origin(text: &str) -> &str {
    let mut rest = text;
    if let Some(inner) = rest.strip_prefix('[')
        && let Some((time, after)) = inner.split_once(']')
        && time.len() == 8
        && time.bytes().all(|byte| byte.is_ascii_digit() || byte == b':')
    {
        rest = after.trim_start();
    }
    for level in ["WARNING: ", "INFO: ", "DEBUG: "] {
        rest = rest.strip_prefix(level).unwrap_or(rest);
    }
    if let Some((origin, after)) = rest.split_once(": ").or_else(|| rest.split_once(":\n")) {
        let file = origin.rsplit_once(':');
        let line_number = |(_, line): (&str, &str)| !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit());
        if !origin.contains(char::is_whitespace) && file.is_some_and(line_number) {
            rest = after;
        }
    }
    rest.trim()
}

/// Splits `Check failed: condition (1 vs. 2) : text` into the text and the condition.
fn without_check(text: &str) -> (&str, &str) {
    let Some(check) = text.strip_prefix("Check failed: ") else { return (text, "") };
    // The condition itself may hold `::`, the text may hold `: `: the first lone colon divides them.
    let divided = check.match_indices(':').find(|(at, _)| {
        let before = check.as_bytes().get(at.wrapping_sub(1));
        let after = check.as_bytes().get(at + 1);
        before != Some(&b':') && after.is_none_or(|byte| byte.is_ascii_whitespace())
    });
    match divided {
        Some((at, _)) => (check.get(at + 1..).unwrap_or("").trim(), check.get(..at).unwrap_or(check)),
        None => ("", check),
    }
}

#[cfg(test)]
mod tests {
    use super::clean;

    #[test]
    fn the_noise_goes_and_the_reason_stays() {
        for (raw, wanted) in [
            (
                "[01:13:49] /workspace/src/data/quantile_dmatrix.h:35: Only `hist` tree method can use \
                 `QuantileDMatrix`.\nStack trace:\n  [bt] (0) /lib/libxgboost.so(+0x11031e) [0x7f7412d1031e]\n",
                "only `hist` tree method can use `QuantileDMatrix`",
            ),
            (
                "[01:13:49] /workspace/src/common/quantile.cc:29: Check failed: max_bin >= 2 (1 vs. 2) : `max_bin` \
                 must be equal to or greater than 2.\nStack trace:\n  [bt] (0)",
                "`max_bin` must be equal to or greater than 2",
            ),
            (
                "value -1 for Parameter max_depth should be greater equal to 0\nmax_depth: Maximum depth of the tree; \
                 0 indicates no limit",
                "value -1 for Parameter max_depth should be greater equal to 0",
            ),
            (
                "[01:13:49] /workspace/src/objective/../common/quantile_loss_utils.h:23: Check failed: \
                 !quantile_alpha.Get().empty(): \nStack trace:\n",
                "the library found that !quantile_alpha.Get().empty() does not hold",
            ),
            (
                "[01:13:49] WARNING: /workspace/src/learner.cc:782: \nParameters: { \"predictor\" } are not used.\n",
                "parameters: { \"predictor\" } are not used",
            ),
            (
                "Invalid Parameter format for eta expect float but value='a'",
                "invalid Parameter format for eta expect float but value='a'",
            ),
            ("", "the library refused without a reason"),
        ] {
            assert_eq!(clean(raw), wanted, "{raw}");
        }
    }
}
