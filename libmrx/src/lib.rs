// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! Memory regions with layouts: one key over many ranges of other regions.
//!
//! The device does the work; this library reaches it through the uverbs ioctl
//! tree of the kernel, with the public structures of libibverbs. (Regions that
//! it creates itself also leave room for what `ibv_dereg_mr` looks for behind
//! the public one.) C programs use the same library through
//! `<infiniband/mrx.h>`; its functions are in [`ffi`].
//!
//! A [`Region`] lives as long as what it stands on: the protection domain, and
//! the regions that its layout names. The compiler sees to the order in which
//! they end, which the kernel demands.
//!
//! ```no_run
//! use mrx::{Access, Context, Pd, Region, SetLayout};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let context = Context::open("rxe_mrx0")?;
//! let pd = Pd::new(&context)?;
//! let access = Access::LOCAL_WRITE | Access::REMOTE_READ;
//! let header = Region::with_memory(&pd, 64, access)?;
//! let body = Region::with_memory(&pd, 4096, access)?;
//!
//! // The last 16 bytes of one and the first 1000 of the other, in one piece.
//! let mut message = Region::empty(&pd, access)?;
//! message.set_layout_sg(SetLayout::NOW, &[header.range(48..64), body.range(0..1000)])?;
//! println!("read 1016 bytes at 0 with rkey {:#x}", message.rkey());
//! # Ok(())
//! # }
//! ```
//!
//! A region cannot end, nor change, under a layout that names it:
//!
//! ```compile_fail
//! # use mrx::{Access, Context, Pd, Region, SetLayout};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let context = Context::open("rxe_mrx0")?;
//! # let pd = Pd::new(&context)?;
//! # let access = Access::LOCAL_WRITE;
//! let body = Region::with_memory(&pd, 4096, access)?;
//! let mut message = Region::empty(&pd, access)?;
//! message.set_layout_sg(SetLayout::NOW, &[body.range(0..1000)])?;
//! drop(body); // error: `body` is borrowed
//! println!("{:#x}", message.rkey());
//! # Ok(())
//! # }
//! ```
//!
//! Besides, an [`ExtendedCq`] polls completions in batches that end by
//! themselves.

mod advise;
mod bind;
mod extended_cq;
pub mod ffi;
mod layout;
mod method;
mod object;
mod region;
pub mod sys;
mod uverbs;

pub use advise::{Advice, Advise};
pub use bind::BindRequest;
pub use extended_cq::{Batch, Completion, ExtendedCq, Fields};
pub use layout::{
    Caps, Dimension, Entry, Layout, LayoutInfo, Range, RawEntry, RawRange, SetLayout,
    SetLayoutError,
};
pub use object::{Context, Pd};
pub use region::{Access, Region};
