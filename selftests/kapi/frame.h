/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How a module of tests gets its device: it is loaded for one, by name.
 */
#ifndef KAPI_FRAME_H
#define KAPI_FRAME_H

struct ib_device;

/**
 * enum kapi_kind - what a device is, as far as regions with attributes go
 * @KAPI_EXTENDED: one whose driver has registered operations
 * @KAPI_PLAIN: one whose driver has not
 * @KAPI_ANY: either
 */
enum kapi_kind {
	KAPI_EXTENDED = 1 << 0,
	KAPI_PLAIN = 1 << 1,
	KAPI_ANY = KAPI_EXTENDED | KAPI_PLAIN,
};

/**
 * kapi_run - call a function with the device that the module was loaded for
 * @run: the function; the device stays while it runs
 *
 * Return: what @run returns; -ENODEV if there is no such device.
 */
int kapi_run(int (*run)(struct ib_device *device, enum kapi_kind kind));

#endif /* KAPI_FRAME_H */
