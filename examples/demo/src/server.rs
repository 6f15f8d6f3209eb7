//! Server as a child process.

use crate::client::Client;
use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

const START_LIMIT: Duration = Duration::from_secs(120);
const STOP_LIMIT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);

/// Server process, killed when dropped, so that a failed demo leaves no process behind.
pub(crate) struct Server {
    child: Child,
    address: String,
    log: Log,
}

type Log = Arc<Mutex<Vec<String>>>;

impl Server {
    /// Starts `binary` on a free port and reads its address from its log.
    pub(crate) fn start(binary: &Path, flags: &[&str]) -> Result<Self> {
        let mut child = Command::new(binary)
            .args(["--hostname", "127.0.0.1", "--port", "0"])
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("could not start {}", binary.display()))?;
        let log = Log::default();
        let (found, address) = mpsc::channel();
        follow(child.stdout.take(), &log, found.clone());
        follow(child.stderr.take(), &log, found);
        let mut server = Self { child, address: String::new(), log };

        let deadline = Instant::now() + START_LIMIT;
        while server.address.is_empty() {
            match address.recv_timeout(PAUSE) {
                Ok(found) => server.address = found,
                Err(RecvTimeoutError::Timeout) if Instant::now() < deadline => {}
                Err(_) => bail!("the server did not start:\n{}", server.log()),
            }
        }
        Ok(server)
    }

    /// `127.0.0.1:PORT`
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn wait_until_healthy(&self, client: &Client) -> Result<()> {
        let deadline = Instant::now() + START_LIMIT;
        while !client.is_healthy() {
            if Instant::now() > deadline {
                bail!("the server did not become healthy:\n{}", self.log());
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Sends SIGTERM and waits for the server to exit with status 0.
    pub(crate) fn stop(mut self) -> Result<()> {
        // The standard library cannot send SIGTERM; every shell has `kill`.
        let kill = ["-c", "kill -TERM \"$0\"", &self.child.id().to_string()];
        let sent = Command::new("sh").args(kill).status().context("could not run sh")?;
        if !sent.success() {
            bail!("SIGTERM could not be sent to the server");
        }
        let deadline = Instant::now() + STOP_LIMIT;
        loop {
            match self.child.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => bail!("the server ended with {status}:\n{}", self.log()),
                None if Instant::now() > deadline => bail!("the server ignored SIGTERM:\n{}", self.log()),
                None => std::thread::sleep(PAUSE),
            }
        }
    }

    fn log(&self) -> String {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).join("\n")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // After `stop` the process has ended, and both calls only return an error.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads `stream` to its end on a separate thread, so that the server never blocks on its log.
fn follow(stream: Option<impl Read + Send + 'static>, log: &Log, found: Sender<String>) {
    let Some(stream) = stream else { return };
    let log = Arc::clone(log);
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if let Some(address) = address_in(&line) {
                // The receiver is dropped once it has the address.
                let _ = found.send(address);
            }
            log.lock().unwrap_or_else(PoisonError::into_inner).push(line);
        }
    });
}

/// First `127.0.0.1:PORT` in a line whose port is not 0.
fn address_in(line: &str) -> Option<String> {
    const HOST: &str = "127.0.0.1:";
    let digits = &line[line.find(HOST)? + HOST.len()..];
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    let port: u16 = digits[..end].parse().ok()?;
    (port != 0).then(|| format!("{HOST}{port}"))
}

#[cfg(test)]
mod tests {
    use super::address_in;

    #[test]
    fn the_address_is_found_in_a_log_line() {
        assert_eq!(address_in("INFO ready address=127.0.0.1:40123 model=x"), Some("127.0.0.1:40123".to_owned()));
        assert_eq!(address_in("{\"address\":\"http://127.0.0.1:80\"}"), Some("127.0.0.1:80".to_owned()));
        assert_eq!(address_in("will listen on 127.0.0.1:0"), None);
        assert_eq!(address_in("127.0.0.1:99999"), None);
        assert_eq!(address_in("ready"), None);
    }
}
