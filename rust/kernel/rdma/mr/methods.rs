// SPDX-License-Identifier: GPL-2.0

//! Regions and layouts in the uverbs tree.
//!
//! C header: [`include/uapi/rdma/mrx_user_ioctl.h`](srctree/include/uapi/rdma/mrx_user_ioctl.h)
//!
//! These methods are for drivers whose protection domains are [`Domain`]s and whose regions are
//! [`Region`]s.
//!
//! [`Domain`]: super::region::Domain

use super::{
    super::{
        driver::DeviceRef,
        object::Object,
        peer::private,
        uverbs::{
            bits,
            chain,
            end,
            input,
            number,
            object,
            output,
            Access::*,
            Attrs,
            Definitions,
            Presence::*,
            Table, //
        },
    },
    access::Access as Rights,
    binding::{
        Description,
        NamedPattern,
        NamedRange, //
    },
    create,
    key::Key,
    layout::{
        ByteStride,
        DatumCount,
        Dimension,
        MAX_DIMENSIONS, //
    },
    region::Region, //
};
use crate::bindings::{
    self,
    ib_mr,
    ib_uverbs_sge,
    mrx_dimension,
    mrx_interleaved,
    mrx_layout_caps,
    mrx_layout_info,
    mrx_peer_context,
    mrx_user_list, //
};
use core::ptr::NonNull;
use kernel::{
    prelude::*,
    sync::Arc,
    transmute::{
        AsBytes,
        FromBytes, //
    },
    uaccess::{
        UserPtr,
        UserSlice, //
    }, //
};

/// The most ranges of an SG layout.
const MAX_RANGES: u32 = 1 << 16;
/// The most entries of an interleaved layout.
const MAX_INTERLEAVED: u32 = 1 << 10;
/// The nesting that is promised.
const MAX_NESTING: u32 = 4;

const OBJECT_MR: u32 = bindings::uverbs_default_objects_UVERBS_OBJECT_MR;
const OBJECT_PD: u32 = bindings::uverbs_default_objects_UVERBS_OBJECT_PD;
const OBJECT_DEVICE: u32 = bindings::uverbs_default_objects_UVERBS_OBJECT_DEVICE;

use bindings::{
    mrx_create_mr_attrs_MRX_ATTR_MR_CREATE_ACCESS as CREATE_ACCESS,
    mrx_create_mr_attrs_MRX_ATTR_MR_CREATE_FLAGS as CREATE_FLAGS,
    mrx_create_mr_attrs_MRX_ATTR_MR_CREATE_HANDLE as CREATE_HANDLE,
    mrx_create_mr_attrs_MRX_ATTR_MR_CREATE_MAX_DESCRIPTORS as CREATE_MAX_DESCRIPTORS,
    mrx_create_mr_attrs_MRX_ATTR_MR_CREATE_PD_HANDLE as CREATE_PD,
    mrx_create_mr_attrs_MRX_ATTR_MR_CREATE_RESP_LKEY as CREATE_LKEY,
    mrx_create_mr_attrs_MRX_ATTR_MR_CREATE_RESP_RKEY as CREATE_RKEY,
    mrx_create_mr_attrs_MRX_ATTR_MR_CREATE_TYPE as CREATE_TYPE,
    mrx_device_methods_MRX_METHOD_QUERY_CAPS,
    mrx_device_methods_MRX_METHOD_SET_PEER_CONTEXT,
    mrx_mr_methods_MRX_METHOD_MR_CREATE,
    mrx_mr_methods_MRX_METHOD_MR_QUERY_LAYOUT,
    mrx_mr_methods_MRX_METHOD_MR_SET_LAYOUT_INTERLEAVED,
    mrx_mr_methods_MRX_METHOD_MR_SET_LAYOUT_SG,
    mrx_query_caps_attrs_MRX_ATTR_QUERY_CAPS_RESP as CAPS,
    mrx_query_layout_attrs_MRX_ATTR_QUERY_LAYOUT_DIMENSIONS as QUERY_DIMENSIONS,
    mrx_query_layout_attrs_MRX_ATTR_QUERY_LAYOUT_HANDLE as QUERY_HANDLE,
    mrx_query_layout_attrs_MRX_ATTR_QUERY_LAYOUT_INFO as QUERY_INFO,
    mrx_query_layout_attrs_MRX_ATTR_QUERY_LAYOUT_LIST as QUERY_LIST,
    mrx_set_layout_attrs_MRX_ATTR_SET_LAYOUT_DIMENSIONS as LAYOUT_DIMENSIONS,
    mrx_set_layout_attrs_MRX_ATTR_SET_LAYOUT_FLAGS as LAYOUT_FLAGS,
    mrx_set_layout_attrs_MRX_ATTR_SET_LAYOUT_HANDLE as LAYOUT_HANDLE,
    mrx_set_layout_attrs_MRX_ATTR_SET_LAYOUT_LIST as LAYOUT_LIST,
    mrx_set_layout_attrs_MRX_ATTR_SET_LAYOUT_RESP_LKEY as LAYOUT_LKEY,
    mrx_set_layout_attrs_MRX_ATTR_SET_LAYOUT_RESP_RKEY as LAYOUT_RKEY,
    mrx_set_layout_flags_MRX_SET_LAYOUT_AVOID_INVALIDATION as AVOID_INVALIDATION,
    mrx_set_layout_flags_MRX_SET_LAYOUT_WITH_POST_WR as WITH_POST_WR, //
    mrx_set_peer_context_attrs_MRX_ATTR_SET_PEER_CONTEXT as PEER_CONTEXT,
};

crate::uverbs_methods! {
    static DEVICE_METHODS: OBJECT_DEVICE = {
        mrx_device_methods_MRX_METHOD_QUERY_CAPS => query_caps [
            output::<mrx_layout_caps>(CAPS, Mandatory),
        ],
        mrx_device_methods_MRX_METHOD_SET_PEER_CONTEXT => set_peer_context [
            input::<mrx_peer_context>(PEER_CONTEXT, Mandatory),
        ],
    };
}

crate::uverbs_methods! {
    static MR_METHODS: OBJECT_MR = {
        mrx_mr_methods_MRX_METHOD_MR_CREATE => create_mr [
            object(CREATE_HANDLE, OBJECT_MR, New, Mandatory),
            object(CREATE_PD, OBJECT_PD, Read, Mandatory),
            number(CREATE_TYPE, Mandatory),
            input::<u32>(CREATE_MAX_DESCRIPTORS, Mandatory),
            bits(CREATE_ACCESS, Mandatory),
            bits(CREATE_FLAGS, Optional),
            output::<u32>(CREATE_LKEY, Mandatory),
            output::<u32>(CREATE_RKEY, Mandatory),
        ],
        mrx_mr_methods_MRX_METHOD_MR_SET_LAYOUT_SG => set_layout_sg [
            object(LAYOUT_HANDLE, OBJECT_MR, Write, Mandatory),
            bits(LAYOUT_FLAGS, Optional),
            input::<mrx_user_list>(LAYOUT_LIST, Mandatory),
            output::<u32>(LAYOUT_LKEY, Mandatory),
            output::<u32>(LAYOUT_RKEY, Mandatory),
        ],
        mrx_mr_methods_MRX_METHOD_MR_SET_LAYOUT_INTERLEAVED => set_layout_interleaved [
            object(LAYOUT_HANDLE, OBJECT_MR, Write, Mandatory),
            bits(LAYOUT_FLAGS, Optional),
            input::<mrx_user_list>(LAYOUT_LIST, Mandatory),
            input::<mrx_user_list>(LAYOUT_DIMENSIONS, Mandatory),
            output::<u32>(LAYOUT_LKEY, Mandatory),
            output::<u32>(LAYOUT_RKEY, Mandatory),
        ],
        mrx_mr_methods_MRX_METHOD_MR_QUERY_LAYOUT => query_layout [
            object(QUERY_HANDLE, OBJECT_MR, Read, Mandatory),
            output::<mrx_layout_info>(QUERY_INFO, Mandatory),
            input::<mrx_user_list>(QUERY_LIST, Optional),
            input::<mrx_user_list>(QUERY_DIMENSIONS, Optional),
        ],
    };
}

const _: () = assert!(
    WITH_POST_WR == bindings::ib_mr_layout_flags_IB_MR_LAYOUT_WITH_POST_WR
        && AVOID_INVALIDATION == bindings::ib_mr_layout_flags_IB_MR_LAYOUT_AVOID_INVALIDATION
);

/// What a driver hands to the core to have these methods.
pub static DEFINITIONS: Definitions = Table([
    chain(OBJECT_MR, &MR_METHODS),
    chain(OBJECT_DEVICE, &DEVICE_METHODS),
    end(),
]);

// SAFETY: These C structures have no padding, and any bytes are valid for them.
unsafe impl AsBytes for mrx_layout_caps {}
// SAFETY: As above.
unsafe impl FromBytes for mrx_user_list {}
// SAFETY: As above.
unsafe impl FromBytes for ib_uverbs_sge {}
// SAFETY: As above.
unsafe impl AsBytes for ib_uverbs_sge {}
// SAFETY: As above.
unsafe impl FromBytes for mrx_interleaved {}
// SAFETY: As above.
unsafe impl AsBytes for mrx_interleaved {}
// SAFETY: As above.
unsafe impl FromBytes for mrx_dimension {}
// SAFETY: As above.
unsafe impl AsBytes for mrx_dimension {}
// SAFETY: As above.
unsafe impl AsBytes for mrx_layout_info {}

fn query_caps(attrs: &Attrs<'_>) -> Result {
    let caps = mrx_layout_caps {
        cap_flags: u64::from(
            bindings::mrx_layout_cap_flags_MRX_LAYOUT_CAP_SG
                | bindings::mrx_layout_cap_flags_MRX_LAYOUT_CAP_INTERLEAVED
                | bindings::mrx_layout_cap_flags_MRX_LAYOUT_CAP_INTERLEAVED_REPEAT
                | bindings::mrx_layout_cap_flags_MRX_LAYOUT_CAP_INTERLEAVED_NONUNIFORM_REPEAT
                | bindings::mrx_layout_cap_flags_MRX_LAYOUT_CAP_INTERLEAVED_NONUNIFORM_DATUM_TOTAL,
        ),
        max_num_sg: MAX_RANGES,
        max_inline_num_sg: MAX_RANGES,
        max_num_interleaved: MAX_INTERLEAVED,
        max_inline_num_interleaved: MAX_INTERLEAVED,
        max_mr_stride_dimension: MAX_DIMENSIONS as u32,
        max_mr_nesting_level: MAX_NESTING,
    };
    attrs.put(CAPS, &caps)
}

fn set_peer_context(attrs: &Attrs<'_>) -> Result {
    private::set(attrs.context()?, &attrs.get(PEER_CONTEXT)?)
}

fn create_mr(attrs: &Attrs<'_>) -> Result {
    let access = attrs.bits(CREATE_ACCESS, Rights::INDIRECT.bits())?;
    let flags = attrs.bits(
        CREATE_FLAGS,
        bindings::mrx_mr_create_flags_MRX_MR_CREATE_SIGNATURE_EN,
    )?;
    let kind = match u32::try_from(attrs.number(CREATE_TYPE)?) {
        Ok(bindings::mrx_mr_type_MRX_MR_TYPE_INDIRECT) => {
            bindings::ib_mr_reg_type_IB_MR_REG_INDIRECT
        }
        // A direct region is filled by a work request that only kernel users can post.
        Ok(bindings::mrx_mr_type_MRX_MR_TYPE_DIRECT) => return Err(EOPNOTSUPP),
        _ => return Err(EINVAL),
    };
    let attr = bindings::ib_mr_init_attr {
        reg_type: kind,
        max_reg_descriptors: i32::try_from(attrs.get::<u32>(CREATE_MAX_DESCRIPTORS)?)
            .map_err(|_| EINVAL)?,
        flags,
    };
    let pd = attrs.raw_object::<bindings::ib_pd>(CREATE_PD)?;
    // SAFETY: The domain and its device are locked by the call.
    unsafe { DeviceRef::from_raw((*pd.as_ptr()).device)?.check_access(access)? };
    // SAFETY: The domain is locked by the call. The region is fresh, and given to the new object.
    let region = unsafe {
        let mr = NonNull::new(create::create(pd.as_ptr(), &attr)?).ok_or(ENOMEM)?;
        let rights = Rights::from_bits(access).with(Rights::ZERO_BASED);
        let region = create::set_access(mr.as_ptr(), rights)?;
        attrs.finish_mr(CREATE_HANDLE, mr)?;
        region
    };
    let key = region.key().raw();
    attrs.put(CREATE_LKEY, &key)?;
    attrs.put(CREATE_RKEY, &key)
}

/// The bytes of a list in the caller's memory, whose entries must be of the size that they have
/// here.
fn user_slice<T>(list: &mrx_user_list, count: usize) -> Result<UserSlice> {
    if list.entry_size as usize != size_of::<T>() {
        return Err(EINVAL);
    }
    let bytes = count.checked_mul(size_of::<T>()).ok_or(EINVAL)?;
    let addr = usize::try_from(list.addr).map_err(|_| EFAULT)?;
    Ok(UserSlice::new(UserPtr::from_addr(addr), bytes))
}

/// Reads a list of up to `most` entries: `EINVAL` if it is empty, `EOPNOTSUPP` if it is longer.
fn read_list<T: FromBytes, U>(
    list: &mrx_user_list,
    most: u32,
    convert: impl Fn(T) -> U,
) -> Result<KVVec<U>> {
    if list.count == 0 {
        return Err(EINVAL);
    }
    if list.count > most {
        return Err(EOPNOTSUPP);
    }
    let count = list.count as usize;
    // All at once: each copy from user memory costs more than an entry does.
    let mut bytes = KVVec::new();
    user_slice::<T>(list, count)?.read_all(&mut bytes, GFP_KERNEL_ACCOUNT)?;
    let mut entries = KVVec::with_capacity(count, GFP_KERNEL_ACCOUNT)?;
    for entry in bytes.chunks_exact(size_of::<T>()) {
        let entry = T::from_bytes_copy(entry).ok_or(EINVAL)?;
        entries.push(convert(entry), GFP_KERNEL_ACCOUNT)?;
    }
    Ok(entries)
}

/// Writes a list: `ENOSPC` if the caller left room for fewer entries.
fn write_list<T: AsBytes, U>(
    list: &mrx_user_list,
    entries: &[U],
    convert: impl Fn(&U) -> T,
) -> Result {
    if (list.count as usize) < entries.len() {
        return Err(ENOSPC);
    }
    let mut writer = user_slice::<T>(list, entries.len())?.writer();
    for entry in entries {
        writer.write(&convert(entry))?;
    }
    Ok(())
}

fn named(addr: u64, length: u32, lkey: u32) -> NamedRange {
    NamedRange {
        key: Key::from_raw(lkey),
        addr,
        length: u64::from(length),
    }
}

/// The region that attribute `id` names.
fn region<'a>(attrs: &'a Attrs<'_>, id: u32) -> Result<&'a Arc<Region>> {
    let mr = attrs.raw_object::<ib_mr>(id)?;
    // SAFETY: The region is locked by the call, and of a driver whose regions are `Region`s.
    unsafe { Object::state(mr.as_ptr()) }
}

fn set_layout(attrs: &Attrs<'_>, description: Description) -> Result {
    let flags = attrs.bits(LAYOUT_FLAGS, AVOID_INVALIDATION | WITH_POST_WR)?;
    let mr = attrs.raw_object::<ib_mr>(LAYOUT_HANDLE)?;
    // A caller who has no room for the keys is not to find the old ones gone.
    put_keys(attrs, region(attrs, LAYOUT_HANDLE)?.key())?;
    // The flags are the same on both sides of the system call.
    // SAFETY: The call has the region for itself; it is of a driver whose regions are `Region`s.
    let key = unsafe { create::set_layout(mr.as_ptr(), description, flags) }?;
    put_keys(attrs, key)
}

fn put_keys(attrs: &Attrs<'_>, key: Key) -> Result {
    attrs.put(LAYOUT_LKEY, &key.raw())?;
    attrs.put(LAYOUT_RKEY, &key.raw())
}

fn set_layout_sg(attrs: &Attrs<'_>) -> Result {
    let list: mrx_user_list = attrs.get(LAYOUT_LIST)?;
    let ranges = read_list(&list, MAX_RANGES, |sge: ib_uverbs_sge| {
        named(sge.addr, sge.length, sge.lkey)
    })?;
    set_layout(attrs, Description::Sg(ranges))
}

fn set_layout_interleaved(attrs: &Attrs<'_>) -> Result {
    let list: mrx_user_list = attrs.get(LAYOUT_LIST)?;
    let entries = read_list(&list, MAX_INTERLEAVED, |e: mrx_interleaved| NamedPattern {
        first: named(e.addr, e.length, e.lkey),
        repeat: e.num_repeated,
        dimensions: e.num_dimensions,
    })?;
    let most = MAX_INTERLEAVED * MAX_DIMENSIONS as u32;
    let dimensions = read_list(&attrs.get(LAYOUT_DIMENSIONS)?, most, |d: mrx_dimension| {
        Dimension {
            stride: ByteStride(d.offset_stride),
            count: DatumCount(d.datum_count),
        }
    })?;
    set_layout(
        attrs,
        Description::Interleaved {
            entries,
            dimensions,
        },
    )
}

fn query_layout(attrs: &Attrs<'_>) -> Result {
    let region = region(attrs, QUERY_HANDLE)?;
    let bound = region.bound();
    let mut info = mrx_layout_info {
        kind: bindings::mrx_layout_kind_MRX_LAYOUT_NONE,
        length: region.own_length(),
        ..Default::default()
    };
    if let Some(bound) = &bound {
        info.length = bound.layout().length().0;
        info.nesting_level = bound.layout().depth().0;
        match bound.description() {
            Description::Sg(ranges) => {
                info.kind = bindings::mrx_layout_kind_MRX_LAYOUT_SG;
                info.num_descriptors = ranges.len() as u32;
            }
            Description::Interleaved {
                entries,
                dimensions,
            } => {
                info.kind = bindings::mrx_layout_kind_MRX_LAYOUT_INTERLEAVED;
                info.num_descriptors = entries.len() as u32;
                info.num_dimensions = dimensions.len() as u32;
            }
        }
    }
    attrs.put(QUERY_INFO, &info)?;
    if !attrs.has(QUERY_LIST) {
        return Ok(());
    }
    let list = attrs.get(QUERY_LIST)?;
    match bound.as_ref().map(|bound| bound.description()) {
        None => Ok(()),
        Some(Description::Sg(ranges)) => write_list(&list, ranges, |range| ib_uverbs_sge {
            addr: range.addr,
            length: range.length as u32,
            lkey: range.key.raw(),
        }),
        Some(Description::Interleaved {
            entries,
            dimensions,
        }) => {
            write_list(&list, entries, |entry| mrx_interleaved {
                addr: entry.first.addr,
                length: entry.first.length as u32,
                lkey: entry.first.key.raw(),
                num_repeated: entry.repeat,
                num_dimensions: entry.dimensions,
            })?;
            write_list(&attrs.get(QUERY_DIMENSIONS)?, dimensions, |d| {
                mrx_dimension {
                    offset_stride: d.stride.0,
                    datum_count: d.count.0,
                }
            })
        }
    }
}
