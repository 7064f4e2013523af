// SPDX-License-Identifier: GPL-2.0

//! Methods that a driver adds to the uverbs ioctl tree.
//!
//! C headers: [`include/rdma/uverbs_ioctl.h`](srctree/include/rdma/uverbs_ioctl.h),
//! [`include/rdma/uverbs_named_ioctl.h`](srctree/include/rdma/uverbs_named_ioctl.h)
//!
//! A tree is made of static tables that point at each other. The functions of this module build
//! the leaves, [`uverbs_methods!`](crate::uverbs_methods) the tables.

use super::peer::private::ContextId;
use crate::bindings;
use core::{
    marker::PhantomData,
    mem::MaybeUninit,
    ptr::NonNull, //
};
use kernel::{
    error::to_result,
    prelude::*,
    transmute::{
        AsBytes,
        FromBytes, //
    }, //
};

pub use crate::bindings::{
    uapi_definition,
    uverbs_attr_def,
    uverbs_method_def,
    uverbs_object_def, //
};

/// A C table in a static. The core only reads it.
#[repr(transparent)]
pub struct Table<T>(pub T);

// SAFETY: The tables are never written to.
unsafe impl<T> Sync for Table<T> {}

/// A list of definitions, closed by one that is all zero.
pub type Definitions = Table<[uapi_definition; 3]>;

impl Definitions {
    /// The first definition.
    pub(super) fn as_ptr(&self) -> *const uapi_definition {
        self.0.as_ptr()
    }
}

const ZERO_TRAILING: u8 = 1 << 0;
const MANDATORY: u8 = 1 << 2;

/// Whether an attribute may be left out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// The call is refused without it.
    Mandatory,
    /// The handler does without it.
    Optional,
}

/// What the call does with an object that an attribute names.
#[derive(Clone, Copy)]
pub enum Access {
    /// Others may use it at the same time.
    Read,
    /// Nobody else may use it at the same time.
    Write,
    /// It is made by the call.
    New,
}

const fn zeroed_spec() -> bindings::uverbs_attr_spec {
    // SAFETY: All zero is a valid value of this C structure.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

const fn flags(base: u8, presence: Presence) -> bindings::__BindgenBitfieldUnit<[u8; 1]> {
    bindings::__BindgenBitfieldUnit::new([match presence {
        Presence::Mandatory => base | MANDATORY,
        Presence::Optional => base,
    }])
}

const fn data(
    id: u32,
    kind: bindings::uverbs_attr_type,
    min_len: usize,
    len: usize,
    base: u8,
    presence: Presence,
) -> uverbs_attr_def {
    let mut attr = zeroed_spec();
    attr.type_ = kind as u8;
    attr._bitfield_1 = flags(base, presence);
    // The layout of `u.ptr`: `len`, then `min_len`.
    attr.u.bindgen_union_field = [len as u16, min_len as u16];
    uverbs_attr_def {
        id: id as u16,
        attr,
    }
}

/// An attribute that names an object of type `object` (`UVERBS_OBJECT_*`).
pub const fn object(id: u32, object: u32, access: Access, presence: Presence) -> uverbs_attr_def {
    let mut attr = zeroed_spec();
    attr.type_ = bindings::uverbs_attr_type_UVERBS_ATTR_TYPE_IDR as u8;
    attr._bitfield_1 = flags(0, presence);
    let access = match access {
        Access::Read => bindings::uverbs_obj_access_UVERBS_ACCESS_READ,
        Access::Write => bindings::uverbs_obj_access_UVERBS_ACCESS_WRITE,
        Access::New => bindings::uverbs_obj_access_UVERBS_ACCESS_NEW,
    };
    // The layout of `u.obj`: `obj_type`, then `access` in the low byte of the next 16 bits.
    attr.u.bindgen_union_field = [object as u16, (access as u16).to_le()];
    uverbs_attr_def {
        id: id as u16,
        attr,
    }
}

/// An attribute that carries a `T`, exactly.
pub const fn input<T>(id: u32, presence: Presence) -> uverbs_attr_def {
    let kind = bindings::uverbs_attr_type_UVERBS_ATTR_TYPE_PTR_IN;
    data(id, kind, size_of::<T>(), size_of::<T>(), 0, presence)
}

/// An attribute that carries a number or an enumerator.
pub const fn number(id: u32, presence: Presence) -> uverbs_attr_def {
    let kind = bindings::uverbs_attr_type_UVERBS_ATTR_TYPE_PTR_IN;
    data(id, kind, size_of::<u64>(), size_of::<u64>(), 0, presence)
}

/// An attribute that carries flags, as 32 or 64 bits.
pub const fn bits(id: u32, presence: Presence) -> uverbs_attr_def {
    let kind = bindings::uverbs_attr_type_UVERBS_ATTR_TYPE_PTR_IN;
    data(id, kind, size_of::<u32>(), size_of::<u64>(), 0, presence)
}

/// An attribute that receives a `T`. A caller that knows a longer `T` gets zeroes behind it.
pub const fn output<T>(id: u32, presence: Presence) -> uverbs_attr_def {
    let kind = bindings::uverbs_attr_type_UVERBS_ATTR_TYPE_PTR_OUT;
    data(
        id,
        kind,
        size_of::<T>(),
        size_of::<T>(),
        ZERO_TRAILING,
        presence,
    )
}

/// The entry of a definition list that adds methods to an object of the core.
pub const fn chain(object: u32, methods: &'static Table<uverbs_object_def>) -> uapi_definition {
    // SAFETY: All zero is a valid value of this C structure.
    let mut definition: uapi_definition = unsafe { MaybeUninit::zeroed().assume_init() };
    definition.kind = bindings::uapi_definition_kind_UAPI_DEF_CHAIN_OBJ_TREE as u8;
    definition.__bindgen_anon_1.bindgen_union_field = [object as u16, 0, 0];
    // SAFETY: The union's members are all as large as a pointer, and this one is a pointer.
    unsafe {
        let slot = &raw mut definition.__bindgen_anon_2;
        slot.cast::<*const uverbs_object_def>()
            .write(&raw const methods.0);
    }
    definition
}

/// The entry that closes a definition list.
pub const fn end() -> uapi_definition {
    // SAFETY: All zero is a valid value of this C structure, of kind `UAPI_DEF_END`.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

/// Declares the methods that a driver adds to one object of the core.
///
/// ```ignore
/// uverbs_methods! {
///     pub static METHODS: UVERBS_OBJECT_MR = {
///         MRX_METHOD_MR_CREATE => create [
///             object(MRX_ATTR_MR_CREATE_HANDLE, UVERBS_OBJECT_MR, New, Mandatory),
///         ],
///     };
/// }
/// ```
#[macro_export]
macro_rules! uverbs_methods {
    (
        $(#[$meta:meta])*
        $vis:vis static $name:ident: $object:path = {
            $( $method:expr => $handler:path [ $( $attr:expr ),* $(,)? ] ),* $(,)?
        };
    ) => {
        $(#[$meta])*
        $vis static $name: $crate::rdma::uverbs::Table<$crate::rdma::uverbs::uverbs_object_def> = {
            use $crate::rdma::uverbs::{
                call,
                uverbs_attr_def,
                uverbs_method_def,
                uverbs_object_def,
                Attrs,
                Handler,
                Table, //
            };
            static METHODS: &[&Table<uverbs_method_def>] = &[ $({
                static ATTRS: &[&Table<uverbs_attr_def>] = &[ $({
                    static ATTR: Table<uverbs_attr_def> = Table($attr);
                    &ATTR
                }),* ];
                struct Call;
                impl Handler for Call {
                    fn handle(attrs: &Attrs<'_>) -> kernel::error::Result {
                        $handler(attrs)
                    }
                }
                static METHOD: Table<uverbs_method_def> = Table(uverbs_method_def {
                    id: $method as u16,
                    flags: 0,
                    num_attrs: ATTRS.len(),
                    attrs: ATTRS.as_ptr().cast(),
                    handler: Some(call::<Call>),
                });
                &METHOD
            }),* ];
            Table(uverbs_object_def {
                id: $object as u16,
                type_attrs: core::ptr::null(),
                num_methods: METHODS.len(),
                methods: METHODS.as_ptr().cast(),
            })
        };
    };
}

/// The function behind a method.
pub trait Handler {
    /// Executes the call.
    fn handle(attrs: &Attrs<'_>) -> Result;
}

/// What the core calls for a method.
///
/// # Safety
///
/// To be called by the core, with the attributes of a running call.
pub unsafe extern "C" fn call<H: Handler>(attrs: *mut bindings::uverbs_attr_bundle) -> c_int {
    kernel::error::from_result(|| {
        let attrs = Attrs {
            bundle: NonNull::new(attrs).ok_or(EINVAL)?,
            _call: PhantomData,
        };
        H::handle(&attrs)?;
        Ok(0)
    })
}

/// The attributes of a running call.
pub struct Attrs<'a> {
    bundle: NonNull<bindings::uverbs_attr_bundle>,
    _call: PhantomData<&'a ()>,
}

impl Attrs<'_> {
    /// Whether the caller gave attribute `id`.
    pub fn has(&self, id: u32) -> bool {
        // SAFETY: The bundle is valid during the call.
        unsafe { bindings::mrx_uverbs_attr_is_valid(self.bundle.as_ptr(), id as u16) }
    }

    /// The value of an attribute made by [`input`].
    pub fn get<T: FromBytes>(&self, id: u32) -> Result<T> {
        let mut value = MaybeUninit::<T>::uninit();
        // SAFETY: The bundle is valid during the call; the value has the size that is given.
        let ret = unsafe {
            bindings::mrx_uverbs_copy_from(
                value.as_mut_ptr().cast(),
                self.bundle.as_ptr(),
                id as u16,
                size_of::<T>(),
            )
        };
        to_result(ret)?;
        // SAFETY: All bytes have been written, and any bytes make a `T`.
        Ok(unsafe { value.assume_init() })
    }

    /// The value of an attribute made by [`number`].
    pub fn number(&self, id: u32) -> Result<u64> {
        let mut value = 0;
        // SAFETY: The bundle is valid during the call.
        let ret =
            unsafe { bindings::mrx_uverbs_get_const(&mut value, self.bundle.as_ptr(), id as u16) };
        to_result(ret)?;
        Ok(value)
    }

    /// The value of an attribute made by [`bits`], 0 if it is absent; `EINVAL` if it has others
    /// than `allowed`.
    pub fn bits(&self, id: u32, allowed: u32) -> Result<u32> {
        let mut value = 0;
        // SAFETY: The bundle is valid during the call.
        let ret = unsafe {
            bindings::uverbs_get_flags32(
                &mut value,
                self.bundle.as_ptr(),
                id as usize,
                u64::from(allowed),
            )
        };
        to_result(ret)?;
        Ok(value)
    }

    /// Writes an attribute made by [`output`].
    pub fn put<T: AsBytes>(&self, id: u32, value: &T) -> Result {
        // SAFETY: The bundle is valid during the call; the value has the size that is given.
        to_result(unsafe {
            bindings::uverbs_copy_to(
                self.bundle.as_ptr(),
                id as usize,
                (&raw const *value).cast(),
                size_of::<T>(),
            )
        })
    }

    /// The verbs context of the process that calls.
    pub fn context(&self) -> Result<ContextId> {
        // SAFETY: The bundle is valid during the call.
        let context = unsafe { bindings::mrx_uverbs_context(self.bundle.as_ptr()) };
        ContextId::of(kernel::error::from_err_ptr(context)?).ok_or(EINVAL)
    }

    /// The object of the core that attribute `id` names.
    pub(super) fn raw_object<C>(&self, id: u32) -> Result<NonNull<C>> {
        // SAFETY: The bundle is valid during the call.
        let object = unsafe { bindings::mrx_uverbs_attr_obj(self.bundle.as_ptr(), id as u16) };
        NonNull::new(kernel::error::from_err_ptr(object)?.cast()).ok_or(EINVAL)
    }

    /// Makes the region `mr` the object that attribute `id` creates.
    ///
    /// # Safety
    ///
    /// The attribute is declared as a new `UVERBS_OBJECT_MR`; `mr` is a live region that the
    /// caller gives up.
    pub(super) unsafe fn finish_mr(&self, id: u32, mr: NonNull<bindings::ib_mr>) -> Result {
        // SAFETY: The bundle is valid during the call, and the object is one that it creates.
        unsafe {
            let uobject = bindings::mrx_uverbs_attr_uobject(self.bundle.as_ptr(), id as u16);
            let uobject = NonNull::new(kernel::error::from_err_ptr(uobject)?).ok_or(EINVAL)?;
            *(*mr.as_ptr()).__bindgen_anon_1.uobject.as_mut() = uobject.as_ptr();
            (*uobject.as_ptr()).object = mr.as_ptr().cast();
            bindings::uverbs_finalize_uobj_create(self.bundle.as_ptr(), id as u16);
        }
        Ok(())
    }
}
