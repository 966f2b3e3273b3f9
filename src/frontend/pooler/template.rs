//! Placeholders in configuration text: shell and compose `${X:-default}`, Kubernetes `$(X)`, Helm and Jinja `{{ .. }}`, ERB
//! `<%= .. %>`. Only values that the repository itself gives are filled in, never the environment of this process.

/// Stands in expanded text for what the repository does not say.
pub(super) const HOLE: char = '\u{fffc}';

/// Nesting of defaults inside defaults, and of variables that name variables.
const MAX_DEPTH: usize = 6;
/// Expanded text never grows past this.
const MAX_LEN: usize = 64 * 1024;

/// Where the value of a variable comes from.
pub(super) trait Lookup {
    /// Unexpanded value of an environment variable.
    fn variable(&self, name: &str) -> Option<String>;
    /// Unexpanded value of a template path such as `.Values.pgbouncer.poolMode` or a Jinja variable.
    fn path(&self, _path: &str) -> Option<String> {
        None
    }
}

/// Fills in placeholders; what stays unknown becomes [`HOLE`].
pub(super) fn expand(text: &str, lookup: &dyn Lookup) -> String {
    let mut out = String::new();
    expand_into(text, lookup, 0, &mut out);
    out
}

/// True if the text holds no placeholder that stayed unknown.
pub(super) fn is_known(text: &str) -> bool {
    !text.contains(HOLE)
}

fn expand_into(text: &str, lookup: &dyn Lookup, depth: usize, out: &mut String) {
    let mut rest = text;
    while let Some(at) = rest.find(['$', '{', '<']) {
        if out.len() > MAX_LEN || depth > MAX_DEPTH {
            out.push(HOLE);
            return;
        }
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let used = if rest.starts_with("${{") {
            // an expression of a workflow file: its value is elsewhere
            delimited(rest, "${{", "}}").map(|(_, used)| {
                out.push(HOLE);
                used
            })
        } else if rest.starts_with("{{") {
            delimited(rest, "{{", "}}").map(|(body, used)| {
                template_action(body, lookup, depth, out);
                used
            })
        } else if rest.starts_with("<%") {
            delimited(rest, "<%", "%>").map(|(body, used)| {
                let body = body.trim_start_matches('=');
                match fallback_literal(body, &["||", "fetch("]) {
                    Some(text) => out.push_str(&text),
                    None => out.push(HOLE),
                }
                used
            })
        } else if rest.starts_with('$') {
            variable(rest, lookup, depth, out)
        } else {
            None
        };
        match used {
            Some(used) => rest = &rest[used..],
            None => {
                let first = rest.chars().next().map_or(1, char::len_utf8);
                out.push_str(&rest[..first]);
                rest = &rest[first..];
            }
        }
    }
    out.push_str(rest);
}

fn delimited<'a>(text: &'a str, open: &str, close: &str) -> Option<(&'a str, usize)> {
    let body = text.get(open.len()..)?;
    let end = body.find(close)?;
    Some((&body[..end], open.len() + end + close.len()))
}

/// `$$`, `$X`, `${X..}`, `$(X)` at the start of `text`; bytes used.
fn variable(text: &str, lookup: &dyn Lookup, depth: usize, out: &mut String) -> Option<usize> {
    let after = &text[1..];
    match after.chars().next()? {
        '$' => {
            out.push('$');
            Some(2)
        }
        '(' => {
            let end = after.find(')')?;
            let name = &after[1..end];
            is_name(name).then(|| {
                value_of(name, lookup, depth, out, None);
                end + 2
            })
        }
        '{' => {
            let end = matching_brace(after)?;
            braced(&after[1..end], lookup, depth, out);
            Some(end + 2)
        }
        first if first.is_ascii_alphabetic() || first == '_' => {
            let len = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len());
            value_of(&after[..len], lookup, depth, out, None);
            Some(len + 1)
        }
        _ => None,
    }
}

/// Index of the `}` that closes the `{` at the start of `text`.
fn matching_brace(text: &str) -> Option<usize> {
    let mut open = 0usize;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'{' => open += 1,
            b'}' if open == 1 => return Some(at),
            b'}' => open -= 1,
            b'\n' => return None,
            _ => {}
        }
    }
    None
}

fn braced(body: &str, lookup: &dyn Lookup, depth: usize, out: &mut String) {
    let len = body.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '.').unwrap_or(body.len());
    let (name, rest) = body.split_at(len);
    let name = name.trim_start_matches("env.");
    let default = rest.strip_prefix(":-").or_else(|| rest.strip_prefix('-'));
    if let Some(other) = rest.strip_prefix(":+").or_else(|| rest.strip_prefix('+')) {
        return match lookup.variable(name) {
            Some(value) if !value.is_empty() => expand_into(other, lookup, depth + 1, out),
            Some(_) => {}
            None => out.push(HOLE),
        };
    }
    value_of(name, lookup, depth, out, default);
}

fn value_of(name: &str, lookup: &dyn Lookup, depth: usize, out: &mut String, default: Option<&str>) {
    let known = lookup.variable(name).filter(|value| !value.is_empty() || default.is_none());
    match (known, default) {
        // a variable that is set to itself (`X: ${X}`) is not known
        (Some(value), _) if depth < MAX_DEPTH && !mentions(&value, name) => expand_into(&value, lookup, depth + 1, out),
        (_, Some(default)) => expand_into(default, lookup, depth + 1, out),
        _ => out.push(HOLE),
    }
}

fn mentions(value: &str, name: &str) -> bool {
    value.contains(&format!("${{{name}"))
        || value.contains(&format!("${name}"))
        || value.contains(&format!("$({name})"))
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// A Helm, Jinja, Go or Handlebars action: its path if that is known, else its literal default.
fn template_action(body: &str, lookup: &dyn Lookup, depth: usize, out: &mut String) {
    let body = body.trim().trim_start_matches('-').trim_end_matches('-').trim();
    if let Some(value) = action_path(body).and_then(|path| lookup.path(path)) {
        return expand_into(&value, lookup, depth + 1, out);
    }
    // `{{ POOL_MODE }}`, `{{ $.POOL_MODE }}`: tools that give templates the environment
    let shouted = action_path(body).map(|path| path.trim_start_matches('.').to_string());
    let shouted = shouted.filter(|name| name.len() > 1 && !name.contains(|c: char| c.is_ascii_lowercase() || c == '.'));
    if let Some(name) = action_variable(body).or(shouted)
        && let Some(value) = lookup.variable(&name)
    {
        return expand_into(&value, lookup, depth + 1, out);
    }
    match fallback_literal(body, &["default", "d(", "coalesce", " or ", "or "]) {
        Some(text) => out.push_str(&text),
        None => match body.strip_prefix('"').and_then(|s| s.split_once('"')) {
            Some((literal, rest)) if rest.trim().is_empty() || rest.trim().starts_with('|') => out.push_str(literal),
            _ => out.push(HOLE),
        },
    }
}

/// The first `.Values.x.y` or plain variable path of an action.
fn action_path(body: &str) -> Option<&str> {
    if let Some(at) = body.find(".Values.") {
        let path = &body[at..];
        let end = path.find(|c: char| !c.is_ascii_alphanumeric() && !"._".contains(c)).unwrap_or(path.len());
        return Some(&path[..end]);
    }
    let body = body.trim_start_matches('$');
    let end = body.find(|c: char| !c.is_ascii_alphanumeric() && !"._".contains(c)).unwrap_or(body.len());
    let path = &body[..end];
    let rest = body[end..].trim_start();
    (!path.is_empty() && (rest.is_empty() || rest.starts_with('|'))).then_some(path)
}

/// `env "X"`, `env.X`, `getenv "X"`.
fn action_variable(body: &str) -> Option<String> {
    let at = body.find("env")?;
    let rest = body[at + 3..].trim_start_matches([' ', '(', '"', '\'', '.', ',']);
    let len = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
    (len > 0).then(|| rest[..len].to_string())
}

/// The quoted literal that follows one of the words that mean "or else".
fn fallback_literal(body: &str, words: &[&str]) -> Option<String> {
    let after = words.iter().filter_map(|word| body.find(word).map(|at| &body[at + word.len()..])).next()?;
    // `env.fetch("X", "literal")`, `default(x, 'literal')`: the last literal is the default; `default "literal" .Values.x` has one
    let mut last = None;
    let mut rest = after;
    while let Some(at) = rest.find(['"', '\'']) {
        let quote = rest[at..].chars().next()?;
        let inner = &rest[at + 1..];
        let Some(end) = inner.find(quote) else { break };
        last = Some(inner[..end].to_string());
        rest = &inner[end + 1..];
    }
    last.or_else(|| {
        let word = after.trim_matches([' ', '(', ')', ':']);
        (!word.is_empty() && word.chars().all(|c| c.is_ascii_digit())).then(|| word.to_string())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nothing;
    impl Lookup for Nothing {
        fn variable(&self, _name: &str) -> Option<String> {
            None
        }
    }

    struct One(&'static str, &'static str);
    impl Lookup for One {
        fn variable(&self, name: &str) -> Option<String> {
            (name == self.0).then(|| self.1.to_string())
        }
        fn path(&self, path: &str) -> Option<String> {
            (path == self.0).then(|| self.1.to_string())
        }
    }

    #[test]
    fn defaults_count_and_unknowns_leave_a_hole() {
        for (text, expected) in [
            ("${POOL_MODE:-transaction}", "transaction"),
            ("${POOL_MODE-transaction}", "transaction"),
            ("${A:-${B:-session}}", "session"),
            ("{{ .Values.poolMode | default \"transaction\" | quote }}", "transaction"),
            ("{{ default \"transaction\" .Values.poolMode }}", "transaction"),
            ("{{ pool_mode | default('session') }}", "session"),
            ("{{- default 'x' .Values.y -}}", "x"),
            ("<%= ENV['MODE'] || 'transaction' %>", "transaction"),
            ("<%= ENV.fetch(\"MODE\", \"session\") %>", "session"),
            ("$$x", "$x"),
            ("${X", "${X"),
            ("{{ .Values.port | default 6432 }}", "6432"),
        ] {
            assert_eq!(expand(text, &Nothing), expected, "{text}");
        }
        for text in
            ["${POOL_MODE}", "$POOL_MODE", "$(MODE)", "{{ .Values.mode }}", "${{ secrets.URL }}", "${X:?must be set}"]
        {
            assert_eq!(expand(text, &Nothing), HOLE.to_string(), "{text}");
        }
    }

    #[test]
    fn known_values_win_and_self_reference_ends() {
        assert_eq!(expand("a-${X:-b}", &One("X", "c")), "a-c");
        assert_eq!(expand("${X}", &One("X", "${X}")), HOLE.to_string());
        assert_eq!(expand("${X:-d}", &One("X", "${X}")), "d");
        assert_eq!(expand("{{ .Values.a.b | quote }}", &One(".Values.a.b", "transaction")), "transaction");
        assert_eq!(expand("{{ env \"X\" }}", &One("X", "y")), "y");
        for text in ["{{POOL_MODE}}", "{{ $.POOL_MODE }}", "{{ .POOL_MODE | quote }}"] {
            assert_eq!(expand(text, &One("POOL_MODE", "session")), "session", "{text}");
        }
    }
}
