/* SPDX-License-Identifier: GPL-2.0 */
#ifndef MRX_PEER_CLIENT_H
#define MRX_PEER_CLIENT_H

#include <linux/types.h>

#include "mrx_peer.h"

struct peer_buffer;

int peer_client_register(const struct mrx_peer_register *how);
int peer_client_unregister(unsigned int slot);
void peer_client_unregister_all(void);
long peer_client_asked(unsigned int slot);
int peer_client_invalidate(struct peer_buffer *buf, unsigned int how);

#endif /* MRX_PEER_CLIENT_H */
