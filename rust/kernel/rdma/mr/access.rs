// SPDX-License-Identifier: GPL-2.0

//! What a region may be used for.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)
//! (`enum ib_access_flags`)

use crate::bindings;

/// A set of access rights and properties (`IB_ACCESS_*`, `IB_ZERO_BASED`).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Access(u32);

impl Access {
    /// Reading locally, which every region allows.
    pub const LOCAL_READ: Self = Self(0);
    /// Writing by a local work request.
    pub const LOCAL_WRITE: Self = Self(bindings::ib_access_flags_IB_ACCESS_LOCAL_WRITE);
    /// Writing by a request of the other side.
    pub const REMOTE_WRITE: Self = Self(bindings::ib_access_flags_IB_ACCESS_REMOTE_WRITE);
    /// Reading by a request of the other side.
    pub const REMOTE_READ: Self = Self(bindings::ib_access_flags_IB_ACCESS_REMOTE_READ);
    /// Atomic operations of the other side.
    pub const REMOTE_ATOMIC: Self = Self(bindings::ib_access_flags_IB_ACCESS_REMOTE_ATOMIC);
    /// The region is addressed from zero instead of from its first virtual address.
    pub const ZERO_BASED: Self = Self(bindings::ib_access_flags_IB_ZERO_BASED);

    /// The memory is found when it is needed.
    pub const ON_DEMAND: Self = Self(bindings::ib_access_flags_IB_ACCESS_ON_DEMAND);
    /// Memory windows may be bound to the region.
    pub const MW_BIND: Self = Self(bindings::ib_access_flags_IB_ACCESS_MW_BIND);
    /// The other side may ask for its writes to become globally visible.
    pub const FLUSH_GLOBAL: Self = Self(bindings::ib_access_flags_IB_ACCESS_FLUSH_GLOBAL);

    /// Everything that lets somebody reach bytes.
    const RIGHTS: u32 =
        Self::LOCAL_WRITE.0 | Self::REMOTE_WRITE.0 | Self::REMOTE_READ.0 | Self::REMOTE_ATOMIC.0;

    /// Everything that a region can grant.
    pub const ALL_RIGHTS: Self = Self(Self::RIGHTS | Self::MW_BIND.0 | Self::FLUSH_GLOBAL.0);

    /// What regions of host memory can have. `IB_ACCESS_OPTIONAL` may be ignored by rule.
    pub const SUPPORTED: Self = Self(
        Self::RIGHTS
            | Self::ZERO_BASED.0
            | Self::ON_DEMAND.0
            | Self::MW_BIND.0
            | Self::FLUSH_GLOBAL.0
            | bindings::ib_access_flags_IB_ACCESS_HUGETLB
            | bindings::ib_access_flags_IB_ACCESS_OPTIONAL,
    );

    /// What regions without memory of their own can have.
    pub const INDIRECT: Self = Self(Self::SUPPORTED.0 & !Self::ON_DEMAND.0);

    /// What memory windows can have.
    pub const WINDOW: Self = Self((Self::RIGHTS & !Self::LOCAL_WRITE.0) | Self::ZERO_BASED.0);

    /// The set of the C flags `bits`.
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// The C flags.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Whether everything in `other` is in this set.
    pub const fn includes(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether something in `other` is in this set.
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether memory of a region with this set is ever written to.
    pub const fn is_writable(self) -> bool {
        const WRITES: u32 = Access::LOCAL_WRITE.0
            | Access::REMOTE_WRITE.0
            | Access::REMOTE_ATOMIC.0
            | bindings::ib_access_flags_IB_ACCESS_MW_BIND;
        self.0 & WRITES != 0
    }

    /// Both sets together.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether it lets somebody change bytes.
    pub const fn writes(self) -> bool {
        self.0 & (Self::LOCAL_WRITE.0 | Self::REMOTE_WRITE.0 | Self::REMOTE_ATOMIC.0) != 0
    }

    /// What both sets have.
    pub const fn common(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Only the rights, without the properties.
    pub const fn rights(self) -> Self {
        Self(self.0 & Self::ALL_RIGHTS.0)
    }
}
