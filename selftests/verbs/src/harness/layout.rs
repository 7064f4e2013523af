// SPDX-License-Identifier: GPL-2.0

//! Layouts, through the C interface of libmrx.

use std::{fmt, io, rc::Rc};

use mrx::{
    ffi,
    sys::{self, ibv_mr_layout_interleaved, ibv_mr_layout_interleaved_dimensions, mrx_layout_info},
};

use super::{
    check::{pointer, status},
    Memory, Mr, Pd, Sge,
};

/// Why a layout was not set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    pub code: i32,
    pub errno: i32,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let code = match self.code {
            sys::IBV_MR_SET_LAYOUT_ERR_INPUT => "INPUT",
            sys::IBV_MR_SET_LAYOUT_ERR_WOULD_INVALIDATE => "WOULD_INVALIDATE",
            sys::IBV_MR_SET_LAYOUT_ERR_UNSUPPORTED => "UNSUPPORTED",
            _ => "an unknown code",
        };
        write!(f, "{code} ({})", io::Error::from_raw_os_error(self.errno))
    }
}

impl std::error::Error for Refusal {}

fn outcome(code: i32) -> Result<(), Refusal> {
    match code {
        0 => Ok(()),
        code => Err(Refusal {
            code,
            errno: io::Error::last_os_error().raw_os_error().unwrap_or(0),
        }),
    }
}

/// An entry of an interleaved layout: the first datum, how many data a round
/// takes, and stride and count of each dimension, the innermost first.
#[derive(Clone)]
pub struct Entry {
    pub first: Sge,
    pub repeated: i32,
    pub dimensions: Vec<(u64, u64)>,
}

impl Entry {
    pub fn new(first: Sge, repeated: i32, dimensions: &[(u64, u64)]) -> Self {
        Self {
            first,
            repeated,
            dimensions: dimensions.to_vec(),
        }
    }
}

/// A layout as it is read back.
#[derive(Debug, PartialEq, Clone)]
pub struct Found {
    pub kind: u32,
    pub length: u64,
    pub nesting: u32,
    /// Address, length, key
    pub ranges: Vec<(u64, u32, u32)>,
}

impl Mr {
    /// A region of the device that is made to be filled by a layout.
    pub fn indirect(pd: &Rc<Pd>, max_descriptors: u32, access: u32) -> io::Result<Self> {
        let attr = sys::mrx_mr_init_attr {
            type_: sys::MRX_MR_TYPE_INDIRECT,
            max_descriptors,
            access,
            flags: 0,
        };
        Self::created(pd, &attr)
    }

    pub fn created(pd: &Rc<Pd>, attr: &sys::mrx_mr_init_attr) -> io::Result<Self> {
        // SAFETY: the domain is live.
        let raw = pointer(unsafe { ffi::mrx_create_mr(pd.raw, attr) })?;
        Ok(Self::adopt(pd, raw, &Memory::new(0)?, attr.access))
    }

    pub fn set_layout(&self, ranges: &[Sge]) -> Result<(), Refusal> {
        self.set_layout_with(0, ranges)
    }

    pub fn set_layout_with(&self, flags: u32, ranges: &[Sge]) -> Result<(), Refusal> {
        self.set_layout_counted(flags, ranges.len() as i32, ranges)
    }

    /// With a count of its own, which is at most the number of ranges.
    pub fn set_layout_counted(
        &self,
        flags: u32,
        count: i32,
        ranges: &[Sge],
    ) -> Result<(), Refusal> {
        let list = ranges.as_ptr().cast_mut();
        // SAFETY: the region is live, this process has one thread, and the call
        // only reads the list.
        outcome(unsafe { ffi::ibv_mr_set_layout_sg(self.raw, flags as i32, count, list) })
    }

    pub fn set_interleaved(&self, flags: u32, entries: &[Entry]) -> Result<(), Refusal> {
        let mut dimensions: Vec<Vec<_>> = entries
            .iter()
            .map(|entry| {
                let of = |&(offset_stride, datum_count): &(u64, u64)| {
                    ibv_mr_layout_interleaved_dimensions {
                        offset_stride,
                        datum_count,
                    }
                };
                entry.dimensions.iter().map(of).collect()
            })
            .collect();
        let mut list: Vec<_> = entries
            .iter()
            .zip(&mut dimensions)
            .map(|(entry, own)| ibv_mr_layout_interleaved {
                first_datum: entry.first,
                num_repeated: entry.repeated,
                num_dimensions: own.len() as i32,
                dims: own.as_mut_ptr(),
            })
            .collect();
        // SAFETY: as above; the dimensions outlive the call.
        outcome(unsafe {
            ffi::ibv_mr_set_layout_interleaved(
                self.raw,
                flags as i32,
                list.len() as i32,
                list.as_mut_ptr(),
            )
        })
    }

    pub fn layout_info(&self) -> io::Result<mrx_layout_info> {
        let mut info = mrx_layout_info::default();
        // SAFETY: the region is live.
        status(unsafe { ffi::mrx_query_layout(self.raw, &mut info) })?;
        Ok(info)
    }

    /// The layout, or its size only where it is no list of ranges.
    pub fn layout(&self) -> io::Result<Found> {
        let info = self.layout_info()?;
        let mut ranges = Vec::new();
        if info.kind == sys::MRX_LAYOUT_SG {
            ranges = vec![Sge::default(); info.num_descriptors as usize];
            let count = info.num_descriptors;
            // SAFETY: there is room for as many entries.
            status(unsafe { ffi::mrx_query_layout_sg(self.raw, count, ranges.as_mut_ptr()) })?;
        }
        Ok(Found {
            kind: info.kind,
            length: info.length,
            nesting: info.nesting_level,
            ranges: ranges
                .iter()
                .map(|range| (range.addr, range.length, range.lkey))
                .collect(),
        })
    }

    pub fn interleaved_layout(&self) -> io::Result<Vec<Entry>> {
        let info = self.layout_info()?;
        let mut entries = vec![ibv_mr_layout_interleaved::default(); info.num_descriptors as usize];
        let mut dimensions =
            vec![ibv_mr_layout_interleaved_dimensions::default(); info.num_dimensions as usize];
        // SAFETY: there is room for as much as is said.
        status(unsafe {
            ffi::mrx_query_layout_interleaved(
                self.raw,
                info.num_descriptors,
                entries.as_mut_ptr(),
                info.num_dimensions,
                dimensions.as_mut_ptr(),
            )
        })?;
        let mut rest = dimensions.as_slice();
        let entries = entries.iter().map(|entry| {
            let (own, others) = rest.split_at(entry.num_dimensions as usize);
            rest = others;
            let own = own
                .iter()
                .map(|one| (one.offset_stride, one.datum_count))
                .collect();
            Entry {
                first: entry.first_datum,
                repeated: entry.num_repeated,
                dimensions: own,
            }
        });
        Ok(entries.collect())
    }

    /// A piece of a region that has a layout, whose bytes are not its own.
    pub fn piece(&self, at: usize, len: usize) -> Sge {
        Sge {
            addr: self.at(at),
            length: len as u32,
            lkey: self.lkey(),
        }
    }
}
