#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""mpi.py: two processes of an MPI job send each other messages of all sizes.

Through the library's C interface, since the guest has no compiler wrapper.
"""

import ctypes

mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)


def handle(name):
    return ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(mpi, name)))


WORLD, BYTE = handle("ompi_mpi_comm_world"), handle("ompi_mpi_byte")


def send(value, length, to):
    mpi.MPI_Send(ctypes.create_string_buffer(bytes([value]) * length, length), length, BYTE, to, value, WORLD)


def receive(value, length, source):
    buffer = ctypes.create_string_buffer(length)
    mpi.MPI_Recv(buffer, length, BYTE, source, value, WORLD, None)
    assert buffer.raw == bytes([value]) * length, f"{length} bytes from {source}"


def main():
    mpi.MPI_Init(None, None)
    rank = ctypes.c_int()
    mpi.MPI_Comm_rank(WORLD, ctypes.byref(rank))
    for i in range(0, 21, 2):
        if rank.value == 0:
            send(i + 1, 1 << i, 1)
            receive(i + 101, 1 << i, 1)
        else:
            receive(i + 1, 1 << i, 0)
            send(i + 101, 1 << i, 0)
    mpi.MPI_Finalize()


main()
