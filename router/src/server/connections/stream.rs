//! The bytes of a connection. A client that reads nothing, or a large answer too slowly, is disconnected; a client that
//! has sent its request and closed its half still gets the answer.

use super::exchange::Exchange;
use crate::server::byte_stream::ByteStream;
use axum::body::Bytes;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// Time after which a client that closed its half and was sent no byte of an answer counts as gone: a client that has
/// left looks the same.
const GONE_AFTER: Duration = Duration::from_secs(5);

/// Period of the check whether a client has closed its half while it waits for an answer.
const LOOK_AFTER: Duration = Duration::from_secs(1);

/// Time for the rest of a request after its answer, and for the last frames of a connection of HTTP/2.
pub(super) const LINGER: Duration = Duration::from_secs(5);

/// Maximum bytes of the rest of a request: twice the default of `--payload-limit`.
const LINGER_BYTES: usize = 64 << 20;

/// Bytes that are read at once and dropped.
const LINGER_PIECE: usize = 16 << 10;

/// Pieces that are read before other connections have their turn.
const LINGER_PIECES: usize = 16;

/// A client's stream.
pub(super) struct ClientStream {
    stream: Box<dyn ByteStream>,
    /// Bytes that were read to recognise the protocol, and are not passed on yet.
    read_before: Bytes,
    exchange: Arc<Exchange>,
    /// The end of the stream was read.
    is_end_seen: bool,
    /// The client has closed its half, even if not all of its bytes are read.
    is_hung_up: bool,
    /// Next check for this.
    next_look: Option<Pin<Box<Sleep>>>,
    /// The client takes nothing.
    stalled: Option<Stalled>,
    half_closed: HalfClosed,
    lingering: Option<Lingering>,
}

/// A connection whose answer is sent, and whose client still sends.
struct Lingering {
    until: Pin<Box<Sleep>>,
    bytes_left: usize,
}

/// A client that takes nothing.
struct Stalled {
    since: Instant,
    /// It is disconnected after this.
    until: Pin<Box<Sleep>>,
}

/// State of a client that has closed its half while an answer is due.
enum HalfClosed {
    /// Nothing is known: it may be gone.
    New,
    /// It is gone after this.
    Since(Pin<Box<Sleep>>),
    /// Bytes of answers are on their way, and it would answer them with a reset if it were gone.
    Answered,
}

impl HalfClosed {
    /// Ready when the client counts as gone.
    fn poll_gone(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if let Self::New = self {
            *self = Self::Since(Box::pin(sleep(GONE_AFTER)));
        }
        match self {
            Self::Since(gone) => gone.as_mut().poll(context),
            Self::New | Self::Answered => Poll::Pending,
        }
    }
}

impl ClientStream {
    pub(super) fn new(stream: Box<dyn ByteStream>, read_before: Bytes, exchange: Arc<Exchange>) -> Self {
        Self {
            stream,
            read_before,
            exchange,
            is_end_seen: false,
            is_hung_up: false,
            next_look: None,
            stalled: None,
            half_closed: HalfClosed::New,
            lingering: None,
        }
    }

    /// Reads what the client still sends, up to the end of the stream and within limits. The kernel resets a connection that is closed
    /// with unread bytes, and the reset takes the answer from a client that has not read it yet (RFC 9112, section 9.6).
    fn poll_linger(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let begin = || Lingering { until: Box::pin(sleep(LINGER)), bytes_left: LINGER_BYTES };
        let Lingering { until, bytes_left } = self.lingering.get_or_insert_with(begin);
        let mut piece = [MaybeUninit::uninit(); LINGER_PIECE];
        for _ in 0..LINGER_PIECES {
            let mut read = ReadBuf::uninit(&mut piece);
            let Poll::Ready(result) = Pin::new(&mut self.stream).poll_read(context, &mut read) else {
                return until.as_mut().poll(context);
            };
            let bytes = read.filled().len();
            *bytes_left = bytes_left.saturating_sub(bytes);
            if result.is_err() || bytes == 0 || *bytes_left == 0 || until.deadline() <= Instant::now() {
                return Poll::Ready(());
            }
        }
        // Other connections of this thread come first.
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// True for a client that counts as gone while an answer is due. While unread bytes of a next request are there,
    /// nobody reads up to the end of the stream, so this checks for the end.
    fn is_gone(&mut self, context: &mut Context<'_>) -> bool {
        while !self.is_hung_up {
            let next_look = self.next_look.get_or_insert_with(|| Box::pin(sleep(LOOK_AFTER)));
            if next_look.as_mut().poll(context).is_pending() {
                return false;
            }
            self.next_look = None;
            let mut state = [PollFd::new(&self.stream, PollFlags::RDHUP)];
            self.is_hung_up = poll(&mut state, Some(&Timespec::default())).is_ok_and(|count| count > 0);
        }
        self.half_closed.poll_gone(context).is_ready()
    }

    /// Passes on the result of a write, unless the client has taken nothing for too long, or has delayed the answer for
    /// longer in total than its size allows. Time for making the answer does not count.
    fn in_time(
        &mut self,
        context: &mut Context<'_>,
        bytes: usize,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.has_taken();
            self.half_closed = HalfClosed::Answered;
            return written;
        }
        ready!(self.poll_stalled(context, bytes));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    /// Passes on the result of an operation that sends what a layer below keeps, as TLS does, within the same limit.
    fn sent_in_time(&mut self, context: &mut Context<'_>, sent: Poll<io::Result<()>>) -> Poll<io::Result<()>> {
        if sent.is_ready() {
            self.has_taken();
            return sent;
        }
        ready!(self.poll_stalled(context, 0));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    /// The client has taken bytes.
    fn has_taken(&mut self) {
        if let Some(Stalled { since, .. }) = self.stalled.take() {
            self.exchange.has_waited(since.elapsed());
        }
    }

    /// Ready when the client has taken nothing for too long; `bytes` wait for it.
    fn poll_stalled(&mut self, context: &mut Context<'_>, bytes: usize) -> Poll<()> {
        let patience = self.exchange.patience();
        let begin = || Stalled { since: Instant::now(), until: Box::pin(sleep(patience)) };
        ready!(self.stalled.get_or_insert_with(begin).until.as_mut().poll(context));
        self.exchange.let_go(bytes);
        Poll::Ready(())
    }
}

impl AsyncRead for ClientStream {
    /// While an answer is due, the end of the stream is hidden, because hyper would drop the connection.
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let (filled, room) = (buf.filled().len(), buf.remaining());
        if !self.read_before.is_empty() {
            let piece = room.min(self.read_before.len());
            buf.put_slice(&self.read_before.split_to(piece));
            return Poll::Ready(Ok(()));
        }
        ready!(Pin::new(&mut self.stream).poll_read(context, buf))?;
        let is_end = buf.filled().len() == filled && room > 0;
        if is_end && !self.is_end_seen {
            // The last bytes of a request may be on their way to its handler, which this task polls next.
            self.is_end_seen = true;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        if is_end && self.exchange.is_answer_due() {
            // The flush that follows sees whether the client is gone.
            self.is_hung_up = true;
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.exchange.refuse_head();
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.in_time(context, bytes.len(), written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.exchange.refuse_head();
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.in_time(context, parts.iter().map(|part| part.len()).sum(), written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Called when all bytes of the connection are written.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        ready!(self.sent_in_time(context, flushed))?;
        self.exchange.flushed();
        if self.exchange.is_answer_due() {
            return if self.is_gone(context) {
                Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()))
            } else {
                Poll::Ready(Ok(()))
            };
        }
        (self.half_closed, self.next_look, self.is_hung_up) = (HalfClosed::New, None, false);
        if self.is_end_seen {
            // The end of the stream can be reported now.
            context.waker().wake_by_ref();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.lingering.is_none() {
            let shut_down = Pin::new(&mut self.stream).poll_shutdown(context);
            ready!(self.sent_in_time(context, shut_down))?;
        }
        if !self.is_end_seen && self.exchange.has_left_bytes() {
            ready!(self.poll_linger(context));
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests;
