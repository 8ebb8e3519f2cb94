//! The reference of all settings, `docs/CONFIGURATION.md`: written from the schema, so that it cannot lie.

use std::fmt::Write as _;

use clap::Arg;

use super::reload::RELOADABLE;
use super::settings::{args, is_list, is_switch, name, schema, table};
use super::show::environment;

const BEGINNING: &str = "\
# Configuration

Every setting of `inkrelay serve` is a flag, a variable of the environment and a key of the file. A flag goes before the
environment, the environment before the file, and the file before the default.

The file is TOML: `inkrelay serve --config inkrelay.toml`. Its keys are the flags' names, those below a heading in the
table of that name. [`deploy/inkrelay.toml`](../deploy/inkrelay.toml) is one to begin with. Paths in it are taken from
where the relay is started.

```toml
listen = \"127.0.0.1:8080\"
allow-origin = [\"https://draw.example\", \"https://draw.example:8443\"]

[limits]
max-draw = \"64KiB\"
max-rate = 120

[times]
idle-time = \"40s\"
```

- `inkrelay config check` says what is wrong, with its line and what would be right. It takes the flags of `serve`.
- `inkrelay config show` tells what holds and where it comes from. Secrets are hidden.
- `inkrelay config reference` prints this page.

A variable that is empty counts as not set, and a switch as not set where its variable is `false`. A variable that begins with
`INKRELAY_` and is none of these is warned of.

SIGHUP has the relay read its file again. It says what changed and carries out what has *yes* below; for the rest it says that a
restart is needed. When anything in the file is wrong, all stays as it was, and the log says why.
The keys of tokens, the list of revoked tokens and the certificate are read again too, from the files that are named already. The log
says which hold something else than before; one that cannot be taken leaves what was there in place.

Sizes are written like `65536`, `64KiB` or `1MB`, times like `500ms`, `5s` or `2min`. A switch is `true` or `false`; its flag
stands alone. A list is written `[\"a\", \"b\"]` in the file, and `a,b` in a flag or the environment.

Times are from 100 ms to a day; `idle-time` is 1 s at least, `room-ttl` a minute at least and a hundred years at most, and
`drain-delay` and `drain-time` are from nothing to an hour. `max-message` is not below `max-draw`, `max-rate` is a million at most, and
counts are a thousand million at most.

Secrets need not stand in the list of processes: put them into the environment, or into files that only the relay reads.
";

/// The page, in Markdown.
pub fn page() -> String {
    let mut page = BEGINNING.to_owned();
    let schema = schema();
    let mut heading = None;
    for (index, arg) in args(&schema).enumerate() {
        if index == 0 || table(arg) != heading {
            heading = table(arg);
            let title =
                heading.as_ref().map_or_else(|| "Without a table".to_owned(), |table| format!("`[{table}]`"));
            let _ = write!(
                page,
                "\n## {title}\n\n| key | flag, environment | value | default | reload | |\n|---|---|---|---|---|---|\n"
            );
        }
        let (name, environment) = (name(arg), environment(name(arg)));
        let is_reloadable = if RELOADABLE.contains(&name) { "yes" } else { "restart" };
        let _ = writeln!(
            page,
            "| `{name}` | `--{name}`, `{environment}` | {} | {} | {is_reloadable} | {} |",
            value(arg),
            default(arg),
            text(arg)
        );
    }
    page
}

fn value(arg: &Arg) -> String {
    if is_switch(arg) {
        return "true or false".to_owned();
    }
    let possible = arg.get_possible_values();
    if !possible.is_empty() {
        return possible
            .iter()
            .map(|value| format!("`{}`", value.get_name()))
            .collect::<Vec<_>>()
            .join(" or ");
    }
    let unit =
        arg.get_value_names().and_then(|names| names.first()).map(ToString::to_string).unwrap_or_default();
    if is_list(arg) { format!("list of {unit}") } else { unit }
}

fn default(arg: &Arg) -> String {
    match arg.get_default_values().first() {
        Some(default) => format!("`{}`", default.to_string_lossy()),
        None => "none".to_owned(),
    }
}

fn text(arg: &Arg) -> String {
    let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
    format!("{}.", help.trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_in_the_documents_is_this_one() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/CONFIGURATION.md");
        let written = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            written == page(),
            "write it anew: cargo run --bin inkrelay -- config reference > docs/CONFIGURATION.md"
        );
    }

    #[test]
    fn every_setting_says_what_it_is_for_and_in_which_unit() {
        for arg in args(&schema()) {
            assert!(text(arg).len() > 10 && !value(arg).is_empty(), "{}", name(arg));
            assert!(page().contains(&format!("| `{}` |", name(arg))), "{}", name(arg));
        }
    }
}
