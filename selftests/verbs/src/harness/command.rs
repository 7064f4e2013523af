// SPDX-License-Identifier: GPL-2.0

//! Commands and methods as an open device gets them, for what the libraries have
//! no call, or would look at things before.

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

/// An attribute of a method: its number, its length, and its value or address.
pub type Attribute = (u32, usize, u64);

/// Calls a method of the ioctl tree of an open device.
pub fn method<const N: usize>(
    descriptor: c_int,
    object: u32,
    number: u32,
    attributes: [Attribute; N],
) -> io::Result<()> {
    #[repr(C)]
    struct Message<const N: usize> {
        header: sys::ib_uverbs_ioctl_hdr,
        attributes: [sys::ib_uverbs_attr; N],
    }
    let mut message = Message {
        header: sys::ib_uverbs_ioctl_hdr {
            length: size_of::<Message<N>>() as u16,
            object_id: object as u16,
            method_id: number as u16,
            num_attrs: N as u16,
            driver_id: sys::RDMA_DRIVER_RXE,
            ..Default::default()
        },
        attributes: attributes.map(|(id, len, data)| sys::ib_uverbs_attr {
            attr_id: id as u16,
            len: len as u16,
            flags: sys::UVERBS_ATTR_F_MANDATORY as u16,
            __bindgen_anon_1: sys::ib_uverbs_attr__bindgen_ty_2 { data },
            ..Default::default()
        }),
    };
    // SAFETY: the message is as long as it says; the caller has made its addresses
    // ones that the kernel may write to, or has to refuse.
    match unsafe { libc::ioctl(descriptor, sys::MRX_VERBS_IOCTL, &raw mut message) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
