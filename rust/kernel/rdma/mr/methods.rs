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
        object::Object,
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
        NamedRange,
        RegionLayout,
        Resolver,
        Shape, //
    },
    create,
    key::Key,
    layout::{
        ByteLength,
        SgItem,
        MAX_DIMENSIONS, //
    },
    region::Region, //
};
use crate::bindings::{
    self,
    ib_mr,
    mrx_layout_caps,
    mrx_user_list, //
};
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
    mrx_mr_methods_MRX_METHOD_MR_CREATE,
    mrx_mr_methods_MRX_METHOD_MR_SET_LAYOUT_SG,
    mrx_query_caps_attrs_MRX_ATTR_QUERY_CAPS_RESP as CAPS,
    mrx_set_layout_attrs_MRX_ATTR_SET_LAYOUT_FLAGS as LAYOUT_FLAGS,
    mrx_set_layout_attrs_MRX_ATTR_SET_LAYOUT_HANDLE as LAYOUT_HANDLE,
    mrx_set_layout_attrs_MRX_ATTR_SET_LAYOUT_LIST as LAYOUT_LIST,
    mrx_set_layout_attrs_MRX_ATTR_SET_LAYOUT_RESP_LKEY as LAYOUT_LKEY,
    mrx_set_layout_attrs_MRX_ATTR_SET_LAYOUT_RESP_RKEY as LAYOUT_RKEY,
    mrx_set_layout_flags_MRX_SET_LAYOUT_AVOID_INVALIDATION as AVOID_INVALIDATION, //
};

crate::uverbs_methods! {
    static DEVICE_METHODS: OBJECT_DEVICE = {
        mrx_device_methods_MRX_METHOD_QUERY_CAPS => query_caps [
            output::<mrx_layout_caps>(CAPS, size_of::<u64>(), Mandatory),
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
            output::<u32>(CREATE_LKEY, size_of::<u32>(), Mandatory),
            output::<u32>(CREATE_RKEY, size_of::<u32>(), Mandatory),
        ],
        mrx_mr_methods_MRX_METHOD_MR_SET_LAYOUT_SG => set_layout_sg [
            object(LAYOUT_HANDLE, OBJECT_MR, Write, Mandatory),
            bits(LAYOUT_FLAGS, Optional),
            input::<mrx_user_list>(LAYOUT_LIST, Mandatory),
            output::<u32>(LAYOUT_LKEY, size_of::<u32>(), Mandatory),
            output::<u32>(LAYOUT_RKEY, size_of::<u32>(), Mandatory),
        ],
    };
}

/// What a driver hands to the core to have these methods.
pub static DEFINITIONS: Definitions =
    Table([chain(OBJECT_MR, &MR_METHODS), chain(OBJECT_DEVICE, &DEVICE_METHODS), end()]);

// SAFETY: These C structures have no padding, and any bytes are valid for them.
unsafe impl AsBytes for mrx_layout_caps {}
// SAFETY: As above.
unsafe impl FromBytes for mrx_user_list {}
// SAFETY: As above.
unsafe impl FromBytes for bindings::ib_uverbs_sge {}

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

fn create_mr(attrs: &Attrs<'_>) -> Result {
    let access = attrs.bits(CREATE_ACCESS, Rights::SUPPORTED.bits())?;
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
    // SAFETY: The domain is locked by the call. The region is fresh, and given to the new object.
    let region = unsafe {
        let mr = core::ptr::NonNull::new(create::create(pd.as_ptr(), &attr)?).ok_or(ENOMEM)?;
        let rights = Rights::from_bits(access).with(Rights::ZERO_BASED);
        let region = create::set_access(mr.as_ptr(), rights)?;
        attrs.finish_mr(CREATE_HANDLE, mr)?;
        region
    };
    let key = region.key().raw();
    attrs.put(CREATE_LKEY, &key)?;
    attrs.put(CREATE_RKEY, &key)
}

/// Reads an array from the caller's memory.
fn read_list<T: FromBytes>(list: &mrx_user_list, most: u32) -> Result<KVVec<T>> {
    if list.count == 0 || list.entry_size as usize != size_of::<T>() {
        return Err(EINVAL);
    }
    if list.count > most {
        return Err(EOPNOTSUPP);
    }
    let mut entries = KVVec::with_capacity(list.count as usize, GFP_KERNEL_ACCOUNT)?;
    let bytes = list.count as usize * size_of::<T>();
    let mut reader = UserSlice::new(UserPtr::from_addr(list.addr as usize), bytes).reader();
    for _ in 0..list.count {
        entries.push(reader.read::<T>()?, GFP_KERNEL_ACCOUNT)?;
    }
    Ok(entries)
}

fn build_sg(
    resolver: &mut Resolver<'_>,
    ranges: &[bindings::ib_uverbs_sge],
) -> Result<RegionLayout> {
    let mut items = KVVec::with_capacity(ranges.len(), GFP_KERNEL_ACCOUNT)?;
    for range in ranges {
        let (source, offset) = resolver.resolve(&NamedRange {
            key: Key::from_raw(range.lkey),
            addr: range.addr,
            length: u64::from(range.length),
        })?;
        let item = SgItem {
            source,
            offset,
            length: ByteLength(u64::from(range.length)),
        };
        items.push(item, GFP_KERNEL_ACCOUNT)?;
    }
    Ok(RegionLayout::sg(&items)?)
}

fn set_layout_sg(attrs: &Attrs<'_>) -> Result {
    let flags = attrs.bits(LAYOUT_FLAGS, AVOID_INVALIDATION)?;
    let list: mrx_user_list = attrs.get(LAYOUT_LIST)?;
    let ranges = read_list::<bindings::ib_uverbs_sge>(&list, MAX_RANGES)?;
    let mr = attrs.raw_object::<ib_mr>(LAYOUT_HANDLE)?;
    // SAFETY: The region is locked by the call, and of a driver whose regions are `Region`s.
    let region: &Arc<Region> = unsafe { Object::state(mr.as_ptr()) }?;
    let shape = Shape::Sg {
        ranges: list.count,
    };
    let key = region.set_layout(shape, flags & AVOID_INVALIDATION != 0, |resolver| {
        build_sg(resolver, &ranges)
    })?;
    let key = key.raw();
    // SAFETY: As above; the call has the region for itself.
    unsafe {
        (*mr.as_ptr()).lkey = key;
        (*mr.as_ptr()).rkey = key;
    }
    attrs.put(LAYOUT_LKEY, &key)?;
    attrs.put(LAYOUT_RKEY, &key)
}
