//! HTTP/2 by hand: no library would do what is done here.

use std::{collections::BTreeMap, net::SocketAddr};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use super::PATIENCE;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const INITIAL_WINDOW_SIZE: u16 = 4;
const CANCEL: u32 = 8;
/// What a frame may carry unless more was agreed.
const MOST: usize = 16 * 1024;

/// What has come of a call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Came {
    /// Response headers.
    pub(crate) headers: bool,
    /// Bytes of the response's messages.
    pub(crate) bytes: usize,
    /// It is over.
    pub(crate) ended: bool,
}

/// A connection. It opens no window by itself.
pub(crate) struct Raw {
    socket: TcpStream,
    came: BTreeMap<u32, Came>,
}

impl Raw {
    /// Connects, with the usual windows.
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        Self::greet(address, &[]).await
    }

    /// Connects, and takes so many bytes of each response before it opens its window.
    pub(crate) async fn connect_with_window(address: SocketAddr, window: u32) -> Self {
        let mut settings = INITIAL_WINDOW_SIZE.to_be_bytes().to_vec();
        settings.extend(window.to_be_bytes());
        Self::greet(address, &settings).await
    }

    async fn greet(address: SocketAddr, settings: &[u8]) -> Self {
        let mut socket = TcpStream::connect(address).await.unwrap();
        socket
            .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            .await
            .unwrap();
        let mut raw = Self {
            socket,
            came: BTreeMap::new(),
        };
        raw.send(&Self::frame(SETTINGS, 0, 0, settings)).await;
        raw
    }

    fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let mut frame = length[1..].to_vec();
        frame.extend([kind, flags]);
        frame.extend(stream.to_be_bytes());
        frame.extend(payload);
        frame
    }

    /// The bytes that begin a call.
    pub(crate) fn headers(stream: u32, method: &str) -> Vec<u8> {
        // :method POST and :scheme http by their numbers, the others literally.
        let mut block = vec![0x83, 0x86];
        for (name, value) in [
            (":path", format!("/ackgate.v1.GatewayService/{method}")),
            (":authority", "gateway".to_owned()),
            ("content-type", "application/grpc".to_owned()),
            ("te", "trailers".to_owned()),
        ] {
            block.push(0);
            for text in [name, &value] {
                block.push(u8::try_from(text.len()).unwrap());
                block.extend(text.bytes());
            }
        }
        Self::frame(HEADERS, END_HEADERS, stream, &block)
    }

    /// The bytes that give a call up.
    pub(crate) fn reset(stream: u32) -> Vec<u8> {
        Self::frame(RST_STREAM, 0, stream, &CANCEL.to_be_bytes())
    }

    /// Begins a call.
    pub(crate) async fn call(&mut self, stream: u32, method: &str) {
        self.send(&Self::headers(stream, method)).await;
    }

    /// Sends a whole message, and with `last` the end of the request.
    pub(crate) async fn message(&mut self, stream: u32, message: &[u8], last: bool) {
        self.part(stream, message.len(), message, last).await;
    }

    /// Sends the beginning of a message of `size` bytes.
    pub(crate) async fn part(&mut self, stream: u32, size: usize, part: &[u8], last: bool) {
        let mut data = vec![0];
        data.extend(u32::try_from(size).unwrap().to_be_bytes());
        data.extend(part);
        let pieces: Vec<&[u8]> = data.chunks(MOST).collect();
        for (number, piece) in pieces.iter().enumerate() {
            let is_end = last && number + 1 == pieces.len();
            let flags = if is_end { END_STREAM } else { 0 };
            self.send(&Self::frame(DATA, flags, stream, piece)).await;
        }
    }

    /// Sends bytes as they are.
    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        // The gateway reads on whatever it is sent.
        let written = timeout(PATIENCE, self.socket.write_all(bytes)).await;
        written
            .expect("the gateway reads")
            .expect("the connection is there");
    }

    /// Takes so many bytes more of a call's response.
    pub(crate) async fn open_window(&mut self, stream: u32, bytes: u32) {
        let update = Self::frame(WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes());
        self.send(&update).await;
    }

    /// What has come of a call so far.
    pub(crate) fn came(&self, stream: u32) -> Came {
        self.came.get(&stream).cloned().unwrap_or_default()
    }

    /// The next frame: its kind, its flags and what it carries.
    async fn next(&mut self) -> (u8, u8, Vec<u8>) {
        let mut head = [0; 9];
        let read = timeout(PATIENCE, self.socket.read_exact(&mut head)).await;
        read.expect("something comes")
            .expect("the connection is there");
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        self.socket.read_exact(&mut payload).await.unwrap();
        let (kind, flags) = (head[3], head[4]);
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        assert_ne!(kind, GOAWAY, "{:?}", String::from_utf8_lossy(&payload));
        let is_asked = flags & ACK == 0;
        match kind {
            SETTINGS if is_asked => self.send(&Self::frame(SETTINGS, ACK, 0, &[])).await,
            PING if is_asked => self.send(&Self::frame(PING, ACK, 0, &payload)).await,
            HEADERS | DATA | RST_STREAM => {
                let came = self.came.entry(stream).or_default();
                came.ended |= kind == RST_STREAM || flags & END_STREAM != 0;
                match kind {
                    HEADERS => came.headers = true,
                    DATA => came.bytes += payload.len(),
                    _ => {}
                }
            }
            _ => {}
        }
        (kind, flags, payload)
    }

    /// Waits until the gateway has read all that was sent: its answer to a ping comes after.
    pub(crate) async fn has_read_everything(&mut self) {
        let payload = [7; 8];
        self.send(&Self::frame(PING, 0, 0, &payload)).await;
        while self.next().await != (PING, ACK, payload.to_vec()) {}
    }

    /// Waits until a call fits.
    pub(crate) async fn until(&mut self, stream: u32, fits: impl Fn(&Came) -> bool) -> Came {
        loop {
            let came = self.came(stream);
            if fits(&came) {
                return came;
            }
            assert!(!came.ended, "{came:?}");
            self.next().await;
        }
    }

    /// Waits until the gateway ends the call, with headers and not by giving it up.
    pub(crate) async fn ends(&mut self, stream: u32) -> Came {
        let came = self.until(stream, |came| came.ended).await;
        assert!(came.headers, "{came:?}");
        came
    }
}
