// SPDX-License-Identifier: GPL-2.0

//! Memory windows: keys of parts of regions that the other side may use for a while.
//!
//! IBTA 1.7, 10.6.7. Type 1 windows belong to their protection domain and are bound again and
//! again; those of type 2 belong to the queue pair that bound them (2B) and are bound once before
//! they have to be invalidated.

use super::{
    access::Access,
    key::Key,
    region::{
        new_variant,
        Domain,
        Region, //
    },
    window::{
        AccessError,
        LastRegion,
        Wanted,
        Window, //
    },
};
use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc,
        SpinLock, //
    },
};

/// The type of a memory window.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum WindowType {
    /// Bound by whoever has the domain.
    One,
    /// Bound to a queue pair, until it is invalidated.
    Two,
}

/// What a window stands for.
struct Binding {
    region: Arc<Region>,
    /// The key of the region, by which it is met.
    region_key: Key,
    /// The first byte, in the region's addressing.
    start: u64,
    length: u64,
    access: Access,
    /// The queue pair whose other side may use a window of type 2.
    qp_num: u32,
}

struct State {
    key: Key,
    binding: Option<Binding>,
}

/// A memory window.
#[pin_data]
pub struct MemoryWindow {
    domain: Arc<Domain>,
    kind: WindowType,
    /// A leaf. Bindings change under [`Domain::layouts`], too, as [`Region::users`] does.
    #[pin]
    state: SpinLock<State>,
}

/// What a work request asks to bind.
#[derive(Clone, Copy)]
pub struct BindRequest {
    /// The window as it is named now.
    pub window: Key,
    /// The new variant of its key.
    pub key: Key,
    /// The region.
    pub region: Key,
    /// The first byte, in the region's addressing.
    pub addr: u64,
    /// Bytes. None unbinds a window of type 1.
    pub length: u64,
    /// What the window may be used for.
    pub access: Access,
}

impl MemoryWindow {
    /// The key that names the window now.
    pub fn key(&self) -> Key {
        self.state.lock().key
    }

    fn unbind(&self, key: Key) {
        let old = {
            let mut state = self.state.lock();
            state.key = key;
            state.binding.take()
        };
        if let Some(old) = old {
            old.region.users.fetch_sub(1, Relaxed);
        }
    }

    /// Ends the window.
    pub fn dealloc(&self) {
        let _layouts = self.domain.layouts.lock();
        let key = self.key();
        self.unbind(key);
        drop(self.domain.windows.remove(key.index()));
    }
}

impl Domain {
    /// Makes a memory window, which stands for nothing yet.
    ///
    /// `ENOSPC` if the device has as many as it can have, `ENOMEM` if there is no memory.
    pub fn add_memory_window(self: &Arc<Self>, kind: WindowType) -> Result<Arc<MemoryWindow>> {
        let reserved = self.windows.reserve()?;
        let key = Key::new(reserved.id(), new_variant());
        let window = Arc::pin_init(
            try_pin_init!(MemoryWindow {
                domain: self.clone(),
                kind,
                state <- new_spinlock!(State { key, binding: None }, "MemoryWindow::state"),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        reserved.fill(window.clone());
        Ok(window)
    }

    /// The window that `key` names now; it stays so while [`Domain::layouts`] is held.
    fn find_memory_window(self: &Arc<Self>, key: Key) -> Option<Arc<MemoryWindow>> {
        let window = self.windows.get(key.index())?;
        (Arc::ptr_eq(&window.domain, self) && window.key() == key).then_some(window)
    }

    /// Executes a work request of queue pair `qp_num` that binds a window.
    ///
    /// `EINVAL` if there is no such window or region in the domain, or if the rules for windows of
    /// its type or for the region forbid it.
    pub fn bind_window(self: &Arc<Self>, wanted: &BindRequest, qp_num: u32) -> Result {
        if !wanted.window.names_window() || !Access::WINDOW.includes(wanted.access) {
            return Err(EINVAL);
        }
        // Windows end under this lock: one that is found under it is bound while it is there.
        let _layouts = self.layouts.lock();
        let window = self.find_memory_window(wanted.window).ok_or(EINVAL)?;
        let key = wanted.window.with_variant_of(wanted.key);
        match window.kind {
            // o10-36.2.2
            WindowType::One if wanted.access.includes(Access::ZERO_BASED) => return Err(EINVAL),
            WindowType::One => {}
            // o10-37.2.30 and o10-37.2.40
            WindowType::Two if wanted.length == 0 || window.state.lock().binding.is_some() => {
                return Err(EINVAL)
            }
            WindowType::Two => {}
        }
        if wanted.length == 0 {
            window.unbind(key);
            return Ok(());
        }
        let region = self.find(wanted.region).ok_or(EINVAL)?;
        self.check_binding(&region, wanted)?;
        region.users.add(1, Relaxed);
        window.unbind(key);
        window.state.lock().binding = Some(Binding {
            region,
            region_key: wanted.region,
            start: wanted.addr,
            length: wanted.length,
            access: wanted.access,
            qp_num,
        });
        Ok(())
    }

    /// What the region has to say (IBTA 1.7, C10-72 to C10-75).
    fn check_binding(self: &Arc<Self>, region: &Arc<Region>, wanted: &BindRequest) -> Result {
        let writes = Access::REMOTE_WRITE.with(Access::REMOTE_ATOMIC);
        let has = region.state().access;
        let writable = has.includes(Access::LOCAL_WRITE);
        if has.includes(Access::ZERO_BASED)
            || !has.includes(Access::MW_BIND)
            || (wanted.access.intersects(writes) && !writable)
        {
            return Err(EINVAL);
        }
        let wanted = Wanted {
            key: wanted.region,
            addr: wanted.addr,
            length: wanted.length,
            access: Access::LOCAL_READ,
        };
        self.window(wanted, &mut LastRegion::none())
            .map_err(|_| EINVAL)?;
        Ok(())
    }

    /// Takes a window of type 2 back; see [`Domain::invalidate`].
    pub(super) fn invalidate_window(self: &Arc<Self>, key: Key, qp_num: u32) -> Result {
        let _layouts = self.layouts.lock();
        let window = self.find_memory_window(key).ok_or(EINVAL)?;
        // o10-37.2.26
        if window.kind == WindowType::One {
            return Err(EINVAL);
        }
        let other = |binding: &Binding| binding.qp_num != qp_num;
        if window.state.lock().binding.as_ref().is_some_and(other) {
            return Err(EINVAL);
        }
        window.unbind(key);
        Ok(())
    }

    /// The window of what is `wanted` through a memory window by the other side of queue pair
    /// `qp_num`. `last` is as for [`Domain::window`].
    pub(super) fn through_memory_window(
        self: &Arc<Self>,
        wanted: Wanted,
        qp_num: u32,
        last: &mut LastRegion,
    ) -> Result<Window, AccessError> {
        let Wanted {
            key,
            addr,
            length,
            access,
        } = wanted;
        let window = self
            .windows
            .get(key.index())
            .ok_or(AccessError::NoSuchKey)?;
        if !Arc::ptr_eq(&window.domain, self) {
            return Err(AccessError::OtherDomain);
        }
        let (region_key, start, whole, skip) = {
            let state = window.state.lock();
            let binding = match &state.binding {
                Some(binding) if state.key == key => binding,
                _ => return Err(AccessError::NoSuchKey),
            };
            if window.kind == WindowType::Two && binding.qp_num != qp_num {
                return Err(AccessError::NotAllowed);
            }
            if !binding.access.includes(access) {
                return Err(AccessError::NotAllowed);
            }
            let zero_based = binding.access.includes(Access::ZERO_BASED);
            let base = if zero_based { 0 } else { binding.start };
            let skip = addr.checked_sub(base).ok_or(AccessError::OutOfBounds)?;
            (binding.region_key, binding.start, binding.length, skip)
        };
        let whole = Wanted {
            key: region_key,
            addr: start,
            length: whole,
            access: Access::LOCAL_READ,
        };
        self.window(whole, last)?.part(skip, length)
    }
}
