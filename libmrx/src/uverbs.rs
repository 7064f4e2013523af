// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! One call of a method of the kernel's uverbs ioctl tree
//! (`<rdma/rdma_user_ioctl_cmds.h>`).

use std::{ffi::c_int, io, marker::PhantomData};

use crate::sys::{
    ib_uverbs_attr, ib_uverbs_ioctl_hdr, MRX_VERBS_IOCTL, RDMA_DRIVER_RXE, UVERBS_ATTR_F_MANDATORY,
};

/// More than any method of ours has.
const MAX_ATTRIBUTES: usize = 12;

/// Payloads of up to this many bytes travel in the attribute itself.
const INLINE: usize = size_of::<u64>();

/// The header and its attributes, in the one piece that the kernel reads.
#[repr(C)]
struct Message {
    header: ib_uverbs_ioctl_hdr,
    attributes: [ib_uverbs_attr; MAX_ATTRIBUTES],
}

/// A method call in the making. It borrows what its attributes point to.
pub(crate) struct Call<'a> {
    message: Message,
    count: usize,
    borrowed: PhantomData<&'a mut ()>,
}

impl<'a> Call<'a> {
    pub(crate) fn new(object: u32, method: u32) -> Self {
        let header = ib_uverbs_ioctl_hdr {
            object_id: object as u16,
            method_id: method as u16,
            // The device speaks the rxe user ABI, so that the distribution's
            // librxe drives it, and librxe puts this id in every call. The
            // kernel compares it with what it noted when the device came up.
            driver_id: RDMA_DRIVER_RXE,
            ..Default::default()
        };
        let message = Message {
            header,
            attributes: Default::default(),
        };
        Self {
            message,
            count: 0,
            borrowed: PhantomData,
        }
    }

    fn push(mut self, id: u32, len: usize, data: u64) -> Self {
        let attribute = &mut self.message.attributes[self.count];
        attribute.attr_id = id as u16;
        attribute.len = len as u16;
        attribute.flags = UVERBS_ATTR_F_MANDATORY as u16;
        attribute.__bindgen_anon_1.data = data;
        self.count += 1;
        self
    }

    /// Names an object that exists, or makes room for the handle of a new one.
    pub(crate) fn handle(self, id: u32, handle: u32) -> Self {
        self.push(id, 0, handle.into())
    }

    /// A constant or flags: always eight bytes, in the attribute.
    pub(crate) fn constant(self, id: u32, value: u64) -> Self {
        self.push(id, size_of::<u64>(), value)
    }

    /// A `__u32` that the kernel reads.
    pub(crate) fn word(self, id: u32, value: u32) -> Self {
        // In memory order, whatever the byte order.
        let mut data = [0; INLINE];
        data[..size_of::<u32>()].copy_from_slice(&value.to_ne_bytes());
        self.push(id, size_of::<u32>(), u64::from_ne_bytes(data))
    }

    /// A structure that the kernel reads. It is too large to travel inline.
    pub(crate) fn input<T>(self, id: u32, value: &'a T) -> Self {
        const { assert!(size_of::<T>() > INLINE && size_of::<T>() <= u16::MAX as usize) };
        self.push(
            id,
            size_of::<T>(),
            std::ptr::from_ref(value).expose_provenance() as u64,
        )
    }

    /// Entries that the kernel reads; `E2BIG` if they are more than fit into an
    /// attribute. None of them travels inline, as none is so small.
    pub(crate) fn list<T>(self, id: u32, entries: &'a [T]) -> io::Result<Self> {
        const { assert!(size_of::<T>() > INLINE) };
        if size_of_val(entries) > u16::MAX as usize {
            return Err(io::Error::from_raw_os_error(libc::E2BIG));
        }
        let addr = entries.as_ptr().expose_provenance() as u64;
        Ok(self.push(id, size_of_val(entries), addr))
    }

    /// Memory that the kernel fills. All bit patterns of `T` must be valid.
    pub(crate) fn output<T>(self, id: u32, value: &'a mut T) -> Self {
        const { assert!(size_of::<T>() <= u16::MAX as usize) };
        self.push(
            id,
            size_of::<T>(),
            std::ptr::from_mut(value).expose_provenance() as u64,
        )
    }

    /// Makes the call. The answer is what stands in the first attribute, where
    /// the methods that create an object have its handle.
    pub(crate) fn run(mut self, command_fd: c_int) -> io::Result<u32> {
        let length = size_of::<ib_uverbs_ioctl_hdr>() + self.count * size_of::<ib_uverbs_attr>();
        self.message.header.length = length as u16;
        self.message.header.num_attrs = self.count as u16;
        // SAFETY: the kernel reads and writes `length` bytes of the message,
        // which has that many, and what the attributes point to, which this
        // call borrows for `'a`.
        let status = unsafe { libc::ioctl(command_fd, MRX_VERBS_IOCTL, &raw mut self.message) };
        if status != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: both members of the union are eight plain bytes.
        Ok(unsafe { self.message.attributes[0].__bindgen_anon_1.data } as u32)
    }
}
