from pycuda.driver import DeviceAllocation

class DeviceMemoryPool:
    def allocate(self, nbytes: int) -> DeviceAllocation: ...
