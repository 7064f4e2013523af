// SPDX-License-Identifier: GPL-2.0

//! Commands as they are written to an open device, for what the provider library
//! has no call, or would look at things before.

use std::{ffi::c_int, io, slice};

use mrx::sys;

/// A command, which has no padding and begins with the place for its response.
///
/// # Safety
///
/// All bytes of a value are initialised.
pub unsafe trait Command {
    /// `IB_USER_VERBS_CMD_*`
    const NUMBER: u32;
    type Response: Default;
    fn respond_to(&mut self, response: u64);
}

// SAFETY: no padding, by the rules for structures of the user ABI.
unsafe impl Command for sys::ib_uverbs_post_send {
    const NUMBER: u32 = sys::IB_USER_VERBS_CMD_POST_SEND;
    type Response = sys::ib_uverbs_post_send_resp;
    fn respond_to(&mut self, response: u64) {
        self.response = response;
    }
}

// SAFETY: as above.
unsafe impl Command for sys::ib_uverbs_rereg_mr {
    const NUMBER: u32 = sys::IB_USER_VERBS_CMD_REREG_MR;
    type Response = sys::ib_uverbs_rereg_mr_resp;
    fn respond_to(&mut self, response: u64) {
        self.response = response;
    }
}

/// Writes a command to an open device and returns the response.
pub fn command<C: Command>(descriptor: c_int, command: C) -> io::Result<C::Response> {
    #[repr(C)]
    struct Message<C> {
        header: sys::ib_uverbs_cmd_hdr,
        command: C,
    }
    let mut response = C::Response::default();
    let words = |bytes: usize| (bytes / 4) as u16;
    let mut message = Message {
        header: sys::ib_uverbs_cmd_hdr {
            command: C::NUMBER,
            in_words: words(size_of::<Message<C>>()),
            out_words: words(size_of_val(&response)),
        },
        command,
    };
    message
        .command
        .respond_to((&raw mut response).expose_provenance() as u64);
    // SAFETY: neither the header nor the command has padding, and the header is
    // as long as the command's alignment; the response may be written.
    let written = unsafe {
        let bytes =
            slice::from_raw_parts((&raw const message).cast::<u8>(), size_of::<Message<C>>());
        libc::write(descriptor, bytes.as_ptr().cast(), bytes.len())
    };
    if written < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(response)
}
