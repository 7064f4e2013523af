// SPDX-License-Identifier: GPL-2.0

//! The rings that a queue shares with the kernel (`<rdma/rdma_user_rxe.h>`), to
//! write to them what no provider library would.

use std::{ffi::c_int, fs, io, mem::offset_of, ptr};

use mrx::sys;

use super::{command::command, Qp};

/// The structures of the kernel's headers.
#[allow(
    dead_code,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals
)]
#[allow(
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    unsafe_op_in_unsafe_fn
)]
pub mod abi {
    include!(concat!(env!("OUT_DIR"), "/abi.rs"));
}

use abi::{rxe_dma_info, rxe_queue_buf, rxe_recv_wqe, rxe_send_wqe, rxe_send_wr, rxe_sge};

/// A ring: some memory that the kernel maps for us, and reads at any time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ring {
    start: *mut u8,
    len: usize,
}

// SAFETY: the memory is shared with the kernel anyway; every access is volatile.
unsafe impl Send for Ring {}

/// Names of the words of a ring's head.
pub const PRODUCER: usize = offset_of!(rxe_queue_buf, producer_index);
pub const CONSUMER: usize = offset_of!(rxe_queue_buf, consumer_index);
pub const INDEX_MASK: usize = offset_of!(rxe_queue_buf, index_mask);
pub const ELEMENT_SIZE: usize = offset_of!(rxe_queue_buf, log2_elem_size);
const DATA: usize = offset_of!(rxe_queue_buf, data);

/// Offsets of the words of an element.
pub mod send {
    use super::*;
    const WR: usize = offset_of!(rxe_send_wqe, wr);
    pub const OPCODE: usize = WR + offset_of!(rxe_send_wr, opcode);
    pub const FLAGS: usize = WR + offset_of!(rxe_send_wr, send_flags);
    pub const TARGET: usize = WR + offset_of!(rxe_send_wr, wr);
    pub const STATUS: usize = offset_of!(rxe_send_wqe, status);
    pub const STATE: usize = offset_of!(rxe_send_wqe, state);
    pub const DMA: usize = offset_of!(rxe_send_wqe, dma);
}

pub mod recv {
    use super::*;
    pub const DMA: usize = offset_of!(rxe_recv_wqe, dma);
}

/// Offsets within the description of an element's data.
pub mod dma {
    use super::*;
    pub const LENGTH: usize = offset_of!(rxe_dma_info, length);
    pub const RESIDUE: usize = offset_of!(rxe_dma_info, resid);
    pub const CURRENT: usize = offset_of!(rxe_dma_info, cur_sge);
    pub const COUNT: usize = offset_of!(rxe_dma_info, num_sge);
    pub const OFFSET: usize = offset_of!(rxe_dma_info, sge_offset);
    pub const SGES: usize = size_of::<rxe_dma_info>();
    pub const ADDR: usize = SGES + offset_of!(rxe_sge, addr);
    pub const SGE_LENGTH: usize = SGES + offset_of!(rxe_sge, length);
    pub const LKEY: usize = SGES + offset_of!(rxe_sge, lkey);
}

impl Ring {
    /// All rings of this process.
    pub fn all() -> io::Result<Vec<Self>> {
        let maps = fs::read_to_string("/proc/self/maps")?;
        let rings = maps
            .lines()
            .filter(|line| line.contains("uverbs"))
            .filter_map(|line| {
                let (start, end) = line.split_whitespace().next()?.split_once('-')?;
                let start = usize::from_str_radix(start, 16).ok()?;
                let end = usize::from_str_radix(end, 16).ok()?;
                Some(Self {
                    start: ptr::with_exposed_provenance_mut(start),
                    len: end - start,
                })
            });
        Ok(rings.collect())
    }

    /// The rings that `make` adds to those of the process. The kernel may join
    /// neighbours in its list, so that only what starts anew counts.
    pub fn of<T>(make: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<(T, Vec<Self>)> {
        let before = Self::all()?;
        let made = make()?;
        let mut after = Self::all()?;
        after.retain(|ring| !before.iter().any(|old| old.start == ring.start));
        Ok((made, after))
    }

    /// Maps the ring that the device tells of in its answer.
    pub fn map(descriptor: c_int, offset: u64, len: usize) -> io::Result<Self> {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping disturbs no other.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                len,
                rights,
                libc::MAP_SHARED,
                descriptor,
                offset as libc::off_t,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            start: start.cast(),
            len,
        })
    }

    /// Undoes [`map`](Self::map). All copies of the ring are forgotten with this one.
    pub fn unmap(self) {
        // SAFETY: nothing else is in this range of the address space.
        unsafe { libc::munmap(self.start.cast(), self.len) };
    }

    /// A word of the head.
    pub fn word(&self, at: usize) -> u32 {
        assert!(at + 4 <= self.len);
        // SAFETY: inside the mapping, by the assertion.
        unsafe { self.start.add(at).cast::<u32>().read_volatile() }
    }

    pub fn set_word(&self, at: usize, value: u32) {
        // Where a ring is smaller than what is aimed at, there is nothing to do.
        if at + 4 <= self.len {
            // SAFETY: inside the mapping, by the condition.
            unsafe { self.start.add(at).cast::<u32>().write_volatile(value) };
        }
    }

    pub fn set_byte(&self, at: usize, value: u8) {
        if at < self.len {
            // SAFETY: inside the mapping, by the condition.
            unsafe { self.start.add(at).write_volatile(value) };
        }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Where element `index` starts, by what the head said at first.
    pub fn element(&self, shape: Shape, index: u32) -> usize {
        DATA + ((index & shape.mask) as usize) * shape.size
    }

    pub fn shape(&self) -> Shape {
        Shape {
            size: 1 << self.word(ELEMENT_SIZE).min(16),
            mask: self.word(INDEX_MASK),
        }
    }
}

/// Size and number of a ring's elements, before anybody changed the head.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub size: usize,
    pub mask: u32,
}

/// Makes the kernel look at the send queue, as `ibv_post_send` does at its end,
/// but without the library reading the ring first.
pub fn ring_doorbell(qp: &Qp) -> io::Result<()> {
    // SAFETY: the queue pair is live, and so is its context.
    let (descriptor, handle) = unsafe { ((*(*qp.raw).context).cmd_fd, (*qp.raw).handle) };
    ring_doorbell_of(descriptor, handle)
}

/// The same for whatever an open device calls by this number.
pub fn ring_doorbell_of(descriptor: c_int, qp_handle: u32) -> io::Result<()> {
    let post = sys::ib_uverbs_post_send {
        wqe_size: size_of::<sys::ib_uverbs_send_wr>() as u32,
        qp_handle,
        ..Default::default()
    };
    command(descriptor, post).map(drop)
}
