//! Prometheus itself: its lint of what is told, and a server of it that scrapes a running relay.

use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::{all_that_is_told, relay};
use crate::support::eventually;
use crate::support::requests::try_answer;

#[tokio::test(flavor = "multi_thread")]
async fn its_lint_has_nothing_to_say() {
    let text = all_that_is_told().await;
    let lint = move || {
        let mut promtool = Command::new("promtool")
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("Debian's prometheus is installed: deploy/install-missing promtool prometheus");
        promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        promtool.wait_with_output().unwrap()
    };
    let output = tokio::task::spawn_blocking(lint).await.unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success() && said.is_empty(), "{}", String::from_utf8_lossy(&said));
}

/// Killed when dropped.
struct Prometheus(Child);

impl Drop for Prometheus {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn start(folder: &Path, operators: SocketAddr, port: u16) -> Prometheus {
    let config = format!(
        "global: {{scrape_interval: 1s}}\n\
         scrape_configs: [{{job_name: inkrelay, static_configs: [{{targets: ['{operators}']}}]}}]\n"
    );
    let file = folder.join("prometheus.yml");
    std::fs::write(&file, config).unwrap();
    let child = Command::new("prometheus")
        .arg(format!("--config.file={}", file.display()))
        .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
        .arg(format!("--web.listen-address=127.0.0.1:{port}"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    Prometheus(child.expect("Debian's prometheus is installed: deploy/install-missing promtool prometheus"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prometheus_scrapes_a_running_relay() {
    let (relay, operators) = relay().await;
    assert_eq!(relay.post_marks("a", 1..=7).await.status, 200);
    let folder = tempfile::tempdir().unwrap();
    // Free now; another process could take it, and then Prometheus ends and the test says so.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let _prometheus = start(folder.path(), operators, port);
    let query = async |query: &str| {
        let url = format!("http://127.0.0.1:{port}/api/v1/query");
        let request = crate::support::requests::client().get(format!("{url}?query={query}"));
        let Ok(answer) = try_answer(request).await else { return None };
        let answer: Value = serde_json::from_slice(&answer.body).ok()?;
        answer["data"]["result"][0]["value"][1].as_str().map(str::to_owned)
    };
    eventually("it has the draws", async || query("inkrelay_draws_total").await.as_deref() == Some("7"))
        .await;
    assert_eq!(query("up").await.as_deref(), Some("1"));
    assert_eq!(query("inkrelay_batch_draws_bucket{le=\"8\"}").await.as_deref(), Some("1"));
}
