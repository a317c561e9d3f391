! Broadcasts and sums in place, as mpif.h's functions and as those of mpi_f08 are called.
module older
   implicit none
contains
   subroutine call_older(right)
      include 'mpif.h'
      integer, intent(inout) :: right
      integer :: rank, number, total, error
      call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
      number = merge(42, 0, rank == 1)
      call MPI_Bcast(number, 1, MPI_INTEGER, 1, MPI_COMM_WORLD, error)
      if (number == 42) right = right + 1
      total = 1
      call MPI_Allreduce(MPI_IN_PLACE, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error)
      if (total == 3) right = right + 1
   end subroutine
end module

program fortran_calls
   use mpi_f08
   use older, only: call_older
   implicit none
   interface
      integer(c_int) function messages_sent() bind(C)
         use, intrinsic :: iso_c_binding, only: c_int
      end function
   end interface
   integer :: rank, number(3), right, totals(2)
   right = 0
   call MPI_Init()
   call MPI_Comm_rank(MPI_COMM_WORLD, rank)
   number = merge(43, 0, rank == 1)
   call MPI_Bcast(number, 3, MPI_INTEGER, 1, MPI_COMM_WORLD)
   if (all(number == 43)) right = right + 1
   call call_older(right)
   totals = [right, int(messages_sent())]
   call PMPI_Allreduce(MPI_IN_PLACE, totals, 2, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
   if (rank == 0) print '(i0, " right, ", i0, " messages")', totals
   call MPI_Finalize()
end program
