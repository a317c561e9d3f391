# sourced by jobs
export OMPI_MCA_a=1
MPIR_CVAR_B=2
