from ..ops import matrix_functions
