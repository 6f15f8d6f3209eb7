//! Log writer on standard output, which never waits for the log's reader.

use metrics::counter;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::write;
use rustix::stdio::stdout;
use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Counter of lines that were dropped.
pub(crate) const DROPPED: &str = "prefold_log_lines_dropped_total";

/// Bytes that are kept for a stalled reader; further lines are dropped.
const MAX_KEPT: usize = 1 << 20;

/// Bytes that a pipe takes at once if it takes any (`PIPE_BUF`).
const AT_ONCE: usize = 4096;

/// Time limit for the last lines at the end of the process.
const LAST: Duration = Duration::from_secs(1);

/// Period of the check for kept lines.
const PERIOD: Duration = Duration::from_secs(1);

/// Period of retries while no new lines come: a reader that resumes takes one pipe buffer at a time.
const SOON: Duration = Duration::from_millis(20);

/// The log of the process.
pub(crate) static LOG: Log = Log(Mutex::new(Backlog { kept: VecDeque::new(), dropped: 0 }));

/// Lines on their way to standard output.
pub(crate) struct Log(Mutex<Backlog>);

/// Lines that could not be written yet.
struct Backlog {
    kept: VecDeque<u8>,
    /// Lines dropped since the last report.
    dropped: u64,
}

impl io::Write for &Log {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(stdout(), line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// Retries kept lines, and logs how many were dropped; never returns.
    pub(crate) async fn retry(&self) {
        let mut is_done = true;
        loop {
            tokio::time::sleep(if is_done { PERIOD } else { SOON }).await;
            let dropped = {
                let mut backlog = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                is_done = backlog.drain(stdout(), Duration::ZERO);
                if is_done { std::mem::take(&mut backlog.dropped) } else { 0 }
            };
            if dropped > 0 {
                tracing::warn!(dropped, "log lines were dropped: the log was not read");
            }
        }
    }

    /// Writes the kept lines, if that does not take long.
    pub(crate) fn finish(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).drain(stdout(), LAST);
    }
}

impl Backlog {
    fn write(&mut self, out: impl AsFd, line: &[u8]) {
        let written = if self.drain(&out, Duration::ZERO) { write_now(&out, line, Duration::ZERO) } else { 0 };
        // A line that has begun must end.
        if written > 0 || self.kept.len() + line.len() <= MAX_KEPT {
            self.kept.extend(&line[written..]);
        } else {
            self.dropped += 1;
            counter!(DROPPED).increment(1);
        }
    }

    /// Writes the kept lines; true if none are left.
    fn drain(&mut self, out: impl AsFd, timeout: Duration) -> bool {
        if !self.kept.is_empty() {
            let written = write_now(out, self.kept.make_contiguous(), timeout);
            self.kept.drain(..written);
        }
        self.kept.is_empty()
    }
}

/// Writes as many bytes as there is room for, and returns their number. Bytes that fail for another reason, such as a full disk or a
/// pipe without a reader, are dropped, and their lines counted.
fn write_now(out: impl AsFd, bytes: &[u8], timeout: Duration) -> usize {
    let timeout = Timespec::try_from(timeout).unwrap_or_default();
    let mut written = 0;
    while written < bytes.len() {
        let mut ready = [PollFd::new(&out, PollFlags::OUT)];
        match poll(&mut ready, Some(&timeout)) {
            Ok(1..) => {}
            Ok(0) | Err(_) => break,
        }
        let end = bytes.len().min(written + AT_ONCE);
        match write(&out, &bytes[written..end]) {
            Ok(count) => written += count,
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => break,
            Err(_) => {
                let lines = bytes[written..].iter().filter(|&&byte| byte == b'\n').count();
                counter!(DROPPED).increment(lines as u64);
                return bytes.len();
            }
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn lines_of_a_log_that_is_not_read_are_kept_and_then_dropped() {
        let (mut reader, writer) = io::pipe().unwrap();
        let mut backlog = Backlog { kept: VecDeque::new(), dropped: 0 };
        let lines = 100_000;
        for number in 0..lines {
            backlog.write(&writer, format!("line {number:>40}\n").as_bytes());
        }
        assert!(backlog.kept.len() <= MAX_KEPT && backlog.dropped > 0);
        let dropped = usize::try_from(backlog.dropped).unwrap();
        let reading = std::thread::spawn(move || {
            let mut text = String::new();
            reader.read_to_string(&mut text).map(|_| text)
        });
        while !backlog.drain(&writer, LAST) {}
        backlog.write(&writer, b"the last\n");
        // The pipe may be full again.
        while !backlog.drain(&writer, LAST) {}
        drop(writer);
        let text = reading.join().unwrap().unwrap();
        let read: Vec<&str> = text.lines().collect();
        assert_eq!((read.len(), read.last()), (lines - dropped + 1, Some(&"the last")));
        let whole = |(number, line): (usize, &&str)| **line == format!("line {number:>40}");
        assert!(read[..read.len() - 1].iter().enumerate().all(whole), "in order, and none in part");
    }

    #[test]
    fn a_line_that_has_begun_is_kept_whole() {
        let (mut reader, writer) = io::pipe().unwrap();
        let mut backlog = Backlog { kept: VecDeque::new(), dropped: 0 };
        // A pipe takes the beginning of the line, and would hold up a writer of the rest.
        let line = vec![b'x'; 2 * MAX_KEPT];
        backlog.write(&writer, &line);
        assert!(backlog.kept.len() > MAX_KEPT && backlog.kept.len() < line.len(), "{}", backlog.kept.len());
        backlog.write(&writer, b"another\n");
        assert_eq!(backlog.dropped, 1);
        let reading = std::thread::spawn(move || {
            let mut text = Vec::new();
            reader.read_to_end(&mut text).map(|_| text)
        });
        while !backlog.drain(&writer, LAST) {}
        drop(writer);
        assert_eq!(reading.join().unwrap().unwrap(), line);
    }

    #[test]
    fn a_log_that_is_closed_is_let_go() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let mut backlog = Backlog { kept: VecDeque::new(), dropped: 0 };
        (0..3).for_each(|_| backlog.write(&writer, b"line\n"));
        assert!(backlog.kept.is_empty());
    }
}
