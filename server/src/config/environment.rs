//! The environment: what of it is set, and which of its variables nobody reads.

use std::ffi::{OsStr, OsString};

use clap::builder::Resettable;
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, Command};

use super::file::near;
use super::settings::is_switch;

/// Before the names of all variables.
const PREFIX: &str = "INKRELAY_";

/// The command with the variables that are set. Empty ones are not, as those that a compose file leaves out; nor is a
/// switch that is off, which would exclude what it does not when a file says so.
pub fn taken(command: Command) -> Command {
    let command = command.mut_args(|arg| {
        let value = arg.get_env().and_then(std::env::var_os);
        let is_off = |value: &OsString| value.is_empty() || is_switch(&arg) && value == "false";
        if value.as_ref().is_some_and(is_off) { arg.env(Resettable::Reset) } else { arg }
    });
    command.mut_subcommands(taken)
}

/// Which variables set what an error is about, where these arguments do not.
pub fn blamed(command: &Command, error: &clap::Error, arguments: &[OsString]) -> Option<String> {
    let mut shown: Vec<String> = Vec::new();
    for kind in [ContextKind::InvalidArg, ContextKind::PriorArg] {
        match error.get(kind) {
            Some(ContextValue::String(one)) => shown.push(one.clone()),
            Some(ContextValue::Strings(some)) => shown.extend(some.iter().cloned()),
            _ => {}
        }
    }
    let is_argument = |flag: &str| {
        let parts = arguments.iter().filter_map(|argument| argument.to_str());
        parts.map(|part| part.split_once('=').map_or(part, |(flag, _)| flag)).any(|part| part == flag)
    };
    let mut variables = Vec::new();
    for shown in shown {
        let flag = shown.split_whitespace().next().unwrap_or_default();
        let of_flag = |arg: &&Arg| arg.get_long().is_some_and(|long| flag.strip_prefix("--") == Some(long));
        let Some(variable) = all(command).into_iter().find(of_flag).and_then(Arg::get_env) else { continue };
        if std::env::var_os(variable).is_some_and(|value| !value.is_empty()) && !is_argument(flag) {
            variables.push(format!("{flag} is set by {} in the environment", variable.to_string_lossy()));
        }
    }
    (!variables.is_empty()).then(|| variables.join("; "))
}

/// A sentence for each variable that looks like one of this program's and is none.
pub fn unknown(command: &Command) -> Vec<String> {
    let known: Vec<&OsStr> = all(command).into_iter().filter_map(Arg::get_env).collect();
    let names = known.iter().filter_map(|name| name.to_str()?.strip_prefix(PREFIX));
    let names: Vec<_> = names.map(|name| name.to_lowercase().replace('_', "-")).collect();
    let mut unknown = Vec::new();
    for (variable, value) in std::env::vars_os() {
        let text = variable.to_string_lossy();
        let Some(name) = text.strip_prefix(PREFIX) else { continue };
        if known.contains(&variable.as_os_str()) || is_of_a_service(name, &value) {
            continue;
        }
        let hint = near(name, names.clone()).map_or_else(
            || "`inkrelay config reference` lists all".to_owned(),
            |near| format!("did you mean {}?", super::show::environment(&near)),
        );
        unknown.push(format!("the environment has {text}, which nothing reads: {hint}"));
    }
    unknown.sort();
    unknown
}

/// Whether Kubernetes put it there, for a service whose name begins like this program's.
fn is_of_a_service(name: &str, value: &OsStr) -> bool {
    let is_address =
        value.to_str().is_some_and(|value| value.starts_with("tcp://") || value.starts_with("udp://"));
    let is_part = ["SERVICE_HOST", "SERVICE_PORT", "_TCP_", "_UDP_"].iter().any(|part| name.contains(part));
    is_address || is_part
}

/// The arguments of a command and of those below it.
fn all(command: &Command) -> Vec<&Arg> {
    command.get_arguments().chain(command.get_subcommands().flat_map(all)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kubernetes_sets_is_nobodys_mistake() {
        for (name, value) in [
            ("SERVICE_HOST", "10.0.0.1"),
            ("SERVICE_PORT_HTTP", "80"),
            ("PORT", "tcp://10.0.0.1:80"),
            ("PORT_80_TCP_ADDR", "10.0.0.1"),
            ("OPERATORS_SERVICE_HOST", "10.0.0.1"),
        ] {
            assert!(is_of_a_service(name, OsStr::new(value)), "{name}");
        }
        assert!(
            !is_of_a_service("PORT", OsStr::new("8080")) && !is_of_a_service("MAX_DRAWS", OsStr::new("1"))
        );
    }
}
