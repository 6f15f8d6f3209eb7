//! Slow readers, with a clock of the tests' own.

use super::*;
use crate::state::holding::{Holding, Route};
use axum::http::HeaderValue;
use axum::response::Response;
use prefold_core::{Quota, Resource};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

const TIMEOUT: Duration = Duration::from_secs(75);
const SECOND: Duration = Duration::from_secs(1);
const MEGABYTE: usize = 1 << 20;

/// A pipe in place of a socket; its file is of no use.
struct Pipe(DuplexStream, File);

impl AsFd for Pipe {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.1.as_fd()
    }
}

impl AsyncRead for Pipe {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buf)
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

/// Sends an answer that holds so many bytes to a client that takes `part` bytes a second. Returns the time that it took, and whether the
/// client got all of it. A second of making comes before each 64 KiB.
async fn send(len: usize, holds: usize, part: usize) -> (Duration, bool) {
    let (near, mut far) = duplex(1 << 10);
    let exchange = Exchange::new(Arc::default(), TIMEOUT);
    let mut stream =
        ClientStream::new(Box::new(Pipe(near, File::open("/dev/null").unwrap())), Bytes::new(), Arc::clone(&exchange));
    let reader = tokio::spawn(async move {
        let mut buffer = vec![0; part];
        while far.read_exact(&mut buffer).await.is_ok() {
            tokio::time::sleep(SECOND).await;
        }
    });
    exchange.answer_holds(holds);
    let begun = Instant::now();
    let mut sent = Ok(());
    for piece in vec![0; len].chunks(1 << 16) {
        tokio::time::sleep(SECOND).await;
        sent = sent.and(stream.write_all(piece).await);
        if sent.is_err() {
            break;
        }
    }
    reader.abort();
    (begun.elapsed(), sent.is_ok())
}

#[tokio::test(start_paused = true)]
async fn who_reads_a_little_is_let_go_when_what_it_holds_has_had_its_time() {
    for (holds, seconds) in [(0, 75), (4 * MEGABYTE, 75 + 16), (64 * MEGABYTE, 75 + 256)] {
        let (took, is_whole) = send(4 * MEGABYTE, holds, 1 << 10).await;
        // The seconds that pieces took to be made are not the client's.
        let most = seconds + seconds / 32 + 10;
        assert!(!is_whole && took >= seconds * SECOND && took <= most * SECOND, "{holds}: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_reads_fast_enough_gets_all_however_long_it_takes_to_be_made() {
    // 1 Mbit/s and 11 MB of JSON, whose values are 4 MB.
    let (took, is_whole) = send(11_000_000, 4_000_000, 125_000).await;
    assert!(is_whole && took > 150 * SECOND, "{took:?}");
    let (took, is_whole) = send(1_000_000, 0, 1 << 17).await;
    assert!(is_whole, "{took:?}");
    let (took, is_whole) = send(16 * MEGABYTE, 0, 1 << 20).await;
    assert!(is_whole && took > 3 * TIMEOUT, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn the_next_answer_has_time_of_its_own() {
    let (near, mut far) = duplex(1);
    let exchange = Exchange::new(Arc::default(), TIMEOUT);
    let mut stream =
        ClientStream::new(Box::new(Pipe(near, File::open("/dev/null").unwrap())), Bytes::new(), Arc::clone(&exchange));
    for _ in 0..5 {
        exchange.answer_holds(0);
        let read = async {
            tokio::time::sleep(50 * SECOND).await;
            far.read_exact(&mut [0; 2]).await
        };
        let (written, read) = tokio::join!(stream.write_all(b"ab"), read);
        assert!(written.is_ok() && read.is_ok());
    }
    exchange.answer_holds(0);
    let read = async {
        for _ in 0..2 {
            tokio::time::sleep(50 * SECOND).await;
            far.read_exact(&mut [0]).await.unwrap();
        }
    };
    let (written, ()) = tokio::join!(stream.write_all(b"abc"), read);
    assert_eq!(written.unwrap_err().kind(), io::ErrorKind::TimedOut);
}

/// Closes the connection of a refused head, whose client sends `part` bytes a second after the answer, and hangs up after `seconds`.
/// Returns the time that it took.
async fn close_after(part: usize, seconds: u32) -> Duration {
    let (near, mut far) = duplex(1 << 20);
    let exchange = Exchange::new(Arc::default(), TIMEOUT);
    let mut stream = ClientStream::new(Box::new(Pipe(near, File::open("/dev/null").unwrap())), Bytes::new(), exchange);
    stream.write_all(b"answer").await.unwrap();
    let client = async {
        let mut answer = String::new();
        far.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer, "answer");
        for _ in 0..seconds {
            if far.write_all(&vec![0; part]).await.is_err() {
                return;
            }
            tokio::time::sleep(SECOND).await;
        }
        drop(far);
    };
    let begun = Instant::now();
    let close = async {
        stream.shutdown().await.unwrap();
        drop(stream);
        begun.elapsed()
    };
    tokio::join!(close, client).0
}

#[tokio::test(start_paused = true)]
async fn the_rest_of_a_refused_request_is_read_for_a_while() {
    assert_eq!(close_after(0, 0).await, Duration::ZERO);
    let hung_up = close_after(MEGABYTE, 3).await;
    assert!(hung_up >= 3 * SECOND && hung_up < LINGER, "{hung_up:?}");
    let endless = close_after(1, 1000).await;
    assert!(endless >= LINGER && endless < LINGER + SECOND, "{endless:?}");
    let large = close_after(LINGER_BYTES / 2, 1000).await;
    assert!(large < 2 * SECOND, "{large:?}");
}

/// A client that sends without a pause, one byte at a time.
struct Endless(File);

impl AsFd for Endless {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsyncRead for Endless {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        buf.put_slice(b"x");
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Endless {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[tokio::test(start_paused = true)]
async fn who_sends_without_a_pause_has_no_more_time() {
    let exchange = Exchange::new(Arc::default(), TIMEOUT);
    let mut stream = ClientStream::new(Box::new(Endless(File::open("/dev/null").unwrap())), Bytes::new(), exchange);
    stream.write_all(b"answer").await.unwrap();
    let mut close = std::pin::pin!(stream.shutdown());
    let mut is_closed =
        async || std::future::poll_fn(|context| Poll::Ready(close.as_mut().poll(context).is_ready())).await;
    assert!(!is_closed().await && !is_closed().await);
    tokio::time::advance(LINGER).await;
    assert!(is_closed().await);
}

#[tokio::test(start_paused = true)]
async fn who_reads_nothing_is_let_go_whatever_it_holds() {
    let (near, _far) = duplex(1);
    let exchange = Exchange::new(Arc::default(), TIMEOUT);
    let mut stream =
        ClientStream::new(Box::new(Pipe(near, File::open("/dev/null").unwrap())), Bytes::new(), Arc::clone(&exchange));
    exchange.answer_holds(64 * MEGABYTE);
    let begun = Instant::now();
    assert_eq!(stream.write_all(b"ab").await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    assert!(begun.elapsed() >= TIMEOUT && begun.elapsed() < TIMEOUT + SECOND, "{:?}", begun.elapsed());
}

/// Lines of a log.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Write::write(&mut *self.0.lock().unwrap(), bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn who_is_let_go_leaves_a_line_in_the_log() {
    let lines = Lines::default();
    let of_log = lines.clone();
    let log = tracing_subscriber::fmt().with_ansi(false).with_writer(move || of_log.clone()).finish();
    let _log = tracing::subscriber::set_default(log);
    let (near, _far) = duplex(1000);
    let exchange = Exchange::new(Arc::default(), TIMEOUT);
    let mut stream =
        ClientStream::new(Box::new(Pipe(near, File::open("/dev/null").unwrap())), Bytes::new(), Arc::clone(&exchange));
    let share = Arc::new(Quota::new(1, Resource::BufferedBytes).share());
    share.force(MEGABYTE);
    let mut response = Response::default();
    response.extensions_mut().insert(Route("/embed".to_owned()));
    response.extensions_mut().insert(Holding::of(&share));
    response.headers_mut().insert("x-request-id", HeaderValue::from_static("seven"));
    exchange.send(&mut response);
    let written = stream.write_all(&[0; 5000]).await;
    assert_eq!(written.unwrap_err().kind(), io::ErrorKind::TimedOut);
    let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    for words in ["--client-timeout 75 s", "/embed", "seven", "unread_bytes=4000", "held_bytes=1048576"] {
        assert!(text.contains(words), "{words}: {text}");
    }
}
