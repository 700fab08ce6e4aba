# Stands in for libtorch's package file.
get_filename_component(TORCH_INSTALL_PREFIX "${CMAKE_CURRENT_LIST_DIR}/../../../" ABSOLUTE)
set(TORCH_BUILD "@BUILD@")
set(TORCH_INCLUDE_DIRS "${TORCH_INSTALL_PREFIX}/include")
set(TORCH_LIBRARIES @LIBRARIES@)
set(TORCH_FOUND TRUE)
