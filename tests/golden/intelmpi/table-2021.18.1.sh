# Intel MPI: export these variables before the program starts (I_MPI_ADJUST_*).
# Written by colltune for any legal program; all ranks get the same result, which may be rounded otherwise.
export I_MPI_ADJUST_BCAST='3:0-1023;1'
export I_MPI_ADJUST_SCATTER='1:0-2147483647;0'
