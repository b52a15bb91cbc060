"""What each field of a system description and of a measurements document means, for people who fill it in."""

from __future__ import annotations

from typing import Final

SYSTEM: Final[dict[str, str]] = {
    "division": "closed, open or network: as the folder",
    "submitter": "the organization that submits: as the folder",
    "status": "available, preview or rdi (research, development, internal): when a customer can have it",
    "system_name": "the name in the results table; it says what the hardware is",
    "system_type": "the suite of benchmarks: datacenter, edge, or both as datacenter,edge",
    "system_type_detail": "what kind of machine it is, such as rack server, workstation, edge device",
    "number_of_nodes": "how many machines take part, a whole number",
    "host_processor_model_name": "vendor and model of the host processor",
    "host_processors_per_node": "sockets in one node, a whole number",
    "host_processor_core_count": "cores of one processor, not threads",
    "host_processor_vcpu_count": "virtual processors of an instance, where cores are not known (cloud)",
    "host_processor_frequency": "base and boost frequency",
    "host_processor_caches": "sizes of the caches by level",
    "host_processor_interconnect": "what connects the sockets; N/A for one socket",
    "host_memory_capacity": "memory of one node, with unit",
    "host_memory_configuration": "modules: count, size, type and speed, such as 24x 32GB DDR5-4800",
    "host_storage_capacity": "storage of one node, with unit",
    "host_storage_type": "type of the storage, such as NVMe SSD",
    "host_networking": "network technology and speed of a node",
    "host_networking_topology": "how the nodes are connected; N/A for one node",
    "host_network_card_count": "network cards of a node: count and speed",
    "accelerators_per_node": "accelerators in one node, a whole number; 0 if the host computes",
    "accelerator_model_name": "vendor and model of the accelerator; N/A without one",
    "accelerator_frequency": "base and boost frequency of the accelerator",
    "accelerator_memory_capacity": "memory of one accelerator, with unit",
    "accelerator_memory_configuration": "its type, such as HBM3e",
    "accelerator_on-chip_memories": "caches and scratch memories of the accelerator",
    "accelerator_host_interconnect": "what connects host and accelerator, such as PCIe 5.0 x16",
    "accelerator_interconnect": "what connects accelerators with each other; N/A for one",
    "accelerator_interconnect_topology": "how they are connected; N/A for one",
    "cooling": "air, liquid or passive",
    "framework": "the inference framework with its version",
    "operating_system": "the operating system with its version",
    "other_software_stack": "drivers, libraries and compilers with their versions",
    "hw_notes": "anything else a reader should know about the hardware; may be empty",
    "sw_notes": "anything else a reader should know about the software; may be empty",
    "is_network": "true where LoadGen and the system under test are connected by a network",
    "network_type": "technology of that network",
    "network_media": "copper, fibre, …",
    "network_rate": "its speed, with unit",
    "nic_loadgen": "model of LoadGen's network card",
    "number_nic_loadgen": "how many of them",
    "net_software_stack_loadgen": "network software on LoadGen's side",
    "network_protocol": "the protocol between the two",
    "number_connections": "connections between the two",
    "nic_sut": "model of the network card of the system under test",
    "number_nic_sut": "how many of them",
    "net_software_stack_sut": "network software on its side",
    "network_topology": "how the two are connected",
}
"""Field of ``systems/<system>.json``: its meaning."""

MEASUREMENTS: Final[dict[str, str]] = {
    "input_data_types": "data types of the model's inputs, such as fp32 or int64",
    "weight_data_types": "data types of the weights that ran, such as int8 or fp4, fp8",
    "weight_transformations": "what was done to the weights: quantization, pruning, layout; or none",
    "starting_weights_filename": "the file that was started from, or where it comes from",
    "retraining": "no; in the open division yes if the model was trained again",
}
"""Field of a result's measurements document: its meaning."""
