// SPDX-License-Identifier: GPL-2.0
/*
 * The device that a module of tests was loaded for.
 */
#include <linux/module.h>
#include <linux/string.h>
#include <rdma/ib_verbs.h>

#include "frame.h"

static char device_name[IB_DEVICE_NAME_MAX];
module_param_string(device, device_name, sizeof(device_name), 0444);
MODULE_PARM_DESC(device, "the device to test");

static bool plain;
module_param(plain, bool, 0444);
MODULE_PARM_DESC(plain, "its driver has no operations for regions with attributes");

static int (*wanted)(struct ib_device *device, enum kapi_kind kind);
static int outcome;

static int kapi_add(struct ib_device *device)
{
	if (strcmp(dev_name(&device->dev), device_name))
		return -EOPNOTSUPP;
	outcome = wanted(device, plain ? KAPI_PLAIN : KAPI_EXTENDED);
	return 0;
}

static struct ib_client kapi_client = {
	.name = KBUILD_MODNAME,
	.add = kapi_add,
};

int kapi_run(int (*run)(struct ib_device *device, enum kapi_kind kind))
{
	int ret;

	wanted = run;
	outcome = -ENODEV;
	ret = ib_register_client(&kapi_client);
	if (ret)
		return ret;
	ib_unregister_client(&kapi_client);
	return outcome;
}
