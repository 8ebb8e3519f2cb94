//! The unit of systemd, and the settings that are installed with it.

use std::process::Command;
use std::time::Duration;

use super::{seconds, text};

/// `systemd-analyze` is the judge, where there is one. It needs the program to be there, and runs nothing.
#[test]
fn the_unit_is_sound_and_hardened() {
    let unit = text("systemd/inkrelay.service");
    for needed in [
        "ExecStart=/usr/local/bin/inkrelay serve --config /etc/inkrelay/inkrelay.toml",
        "ExecReload=/bin/kill -HUP $MAINPID",
        "KillSignal=SIGTERM",
        "NoNewPrivileges=yes",
        // One whom files can be given to, and who can read them again when they are renewed.
        "User=inkrelay",
        "StateDirectory=inkrelay",
    ] {
        assert!(unit.lines().any(|line| line == needed), "{needed}");
    }
    // What would go before the file without anyone seeing it there; and what hides the processors and all of the process's metrics.
    for harmful in ["Environment=", "EnvironmentFile=", "DynamicUser=yes", "LoadCredential=", "ProcSubset="] {
        assert!(!unit.lines().any(|line| line.starts_with(harmful)), "{harmful}");
    }
    let stop = unit.lines().find_map(|line| line.strip_prefix("TimeoutStopSec=")).unwrap();
    let drain = inkrelay_server::config::Config::default().times.drain_time;
    assert!(seconds(stop) >= drain + Duration::from_secs(5), "{stop} for {drain:?}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("inkrelay.service");
    assert!(unit.contains("/usr/local/bin/inkrelay"));
    std::fs::write(&file, unit.replace("/usr/local/bin/inkrelay", env!("CARGO_BIN_EXE_inkrelay"))).unwrap();
    let analyze = |arguments: &[&str]| {
        let mut command = Command::new("systemd-analyze");
        command.args(arguments).arg(&file).output().ok()
    };
    let Some(verified) = analyze(&["verify", "--man=no"]) else { return };
    let said = String::from_utf8_lossy(&verified.stderr);
    let ours: Vec<_> = said.lines().filter(|line| line.contains("inkrelay")).collect();
    assert!(verified.status.success() && ours.is_empty(), "{said}");
    // In tenths; above is what systemd calls medium.
    let rated = analyze(&["security", "--offline=true", "--threshold=20", "--no-pager"]).unwrap();
    assert!(rated.status.success(), "{}", String::from_utf8_lossy(&rated.stdout));
}

/// The settings that are installed with it, but for their places; and the folder that the unit keeps for draws.
#[test]
fn the_services_settings_are_right() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let ran = Command::new(env!("CARGO_BIN_EXE_inkrelay")).args(arguments).current_dir(&folder).output();
        let ran = ran.unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).unwrap()
    };
    run(&["token", "new-key", "keys"]);
    let settings = text("systemd/inkrelay.toml");
    assert!(settings.lines().any(|line| line == "data = \"/var/lib/inkrelay\""));
    let settings = settings.replace("/etc/inkrelay", &folder.path().display().to_string());
    std::fs::write(folder.path().join("inkrelay.toml"), settings).unwrap();
    run(&["config", "check", "--config", "inkrelay.toml"]);
}
