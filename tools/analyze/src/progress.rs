//! Progress bar for long inputs, on standard error if it is a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{BufRead, IsTerminal, Read};
use std::time::{Duration, Instant};

/// Delay before the bar appears.
const PATIENCE: Duration = Duration::from_millis(500);

const DRAWS_PER_SECOND: u8 = 8;

/// Progress of reading.
pub(crate) struct Progress {
    bar: ProgressBar,
    start: Instant,
}

impl Progress {
    /// Progress over `size` bytes, if known.
    pub(crate) fn new(size: Option<u64>) -> Self {
        let bar = ProgressBar::with_draw_target(size, ProgressDrawTarget::hidden());
        let template = match size {
            Some(_) => "{msg} [{bar:30}] {bytes}/{total_bytes} {eta}",
            None => "{msg} {bytes} {elapsed}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        Self { bar, start: Instant::now() }
    }

    fn bytes(&self, count: usize) {
        self.bar.inc(count as u64);
    }

    /// Sets the number of finished texts.
    pub(crate) fn texts(&self, count: usize) {
        if self.bar.is_hidden() && self.start.elapsed() > PATIENCE && std::io::stderr().is_terminal() {
            self.bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(DRAWS_PER_SECOND));
        }
        self.bar.set_message(format!("{count} texts"));
    }

    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// Reader that reports the bytes read to the progress bar.
pub(crate) struct CountedReader<'a, R> {
    from: R,
    progress: &'a Progress,
}

impl<'a, R> CountedReader<'a, R> {
    pub(crate) fn new(from: R, progress: &'a Progress) -> Self {
        Self { from, progress }
    }
}

impl<R: BufRead> Read for CountedReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.from.read(buffer)?;
        self.progress.bytes(count);
        Ok(count)
    }
}

impl<R: BufRead> BufRead for CountedReader<'_, R> {
    fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
        self.from.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        self.progress.bytes(count);
        self.from.consume(count);
    }
}
