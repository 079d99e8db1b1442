"""Tests of tests/engine that do not run with `--device cuda`, and why; all others do."""

from __future__ import annotations

TABLE = {  # why -> modules, and tests of a module as module::test
    "it compares random numbers with those that PyTorch draws on the CPU": """
        test_data::test_random_samplers_draw_as_torch test_data::test_distributed_sampler_as_torch test_data::test_random_split
        test_data_loader::test_shuffled_as_torch test_data_loader::test_samplers_that_draw_at_once_draw_as_with_torch
        test_math_names::test_low_rank_approximations_find_matrices_of_low_rank test_nn_layers::test_attention
        test_nn_layers::test_layers_start_with_torchs_weights test_nn_layers::test_transformer
        test_nn_utils::test_initializers_draw_as_torch test_random test_rnn::test_recurrent_layers
        test_out::test_a_spread_far_smaller_than_the_mean_is_normalised_precisely
    """,
    "its tensors share memory with NumPy's arrays, or are inspected as such": """
        test_array_api test_from_data test_math::test_gelu_in_float32 test_math_names::test_histograms_of_points test_tape::test_backward_is_a_generator_of_steps
        test_tape::test_push_forward_is_the_jacobian_times_a_vector test_tape::test_push_forward_through_several_results
        test_tape::test_a_half_run_pass_can_be_dropped test_tape::test_a_written_view_makes_no_cycle
        test_autograd_graph::test_functions_on_samples test_autograd_graph::test_functions_on_batches
        test_storage_types::test_a_file_as_a_storage test_testing::test_how_a_tensor_is_asked_for
        test_storage_types::test_a_slice_of_a_storage_is_one_of_its_own_in_the_same_memory test_subclasses::test_public_functions_are_functions_still
    """,
    "it is about the CPU: its name, its autocast, its memory, or files of its tensors": """
        test_autocast test_checkpoint_fuzz test_checkpoints::test_a_module_of_torch test_checkpoints::test_map_location
        test_profiler::test_the_trace_is_chromes test_profiler::test_memory_is_counted_when_taken_and_given_back
        test_library::test_kernels_by_device test_namespaces test_profiler::test_a_gpus_times test_for_libraries::test_what_optimizers_of_libraries_take_from_pytorchs test_tensor_objects::test_a_device_is_a_value test_tensor_objects::test_names_of_types test_meta test_module::test_types_by_name
        test_module::test_share_memory test_nn_parallel::test_scatter_replicate_apply_gather_are_the_module
        test_rnn::test_packed_sequences_in_other_types test_utils_small::test_capsules_are_refused
        test_utils_small::test_a_capsules_options_and_device test_hooks::test_what_a_hook_may_not_give
        test_data_loader::test_warnings_and_fixed_attributes test_grad_scaler::test_a_scale_of_ones_own
    """,
    "it compares text, which names the device": """
        test_printing test_asked_names::test_a_tensor_is_written_by_its_parts test_containers::test_parameters_within_parameters_in_text
        test_math_names::test_named_results_print_as_pytorchs test_module::test_mistakes test_module::test_repr
        test_sparse::test_it_prints_as_pytorchs test_subclasses::test_results_are_of_the_subclass
    """,
    "an error by values is raised when the host next waits": """
        test_control_flow::test_scans_refuse test_errors::test_words test_index::test_refused_indices
        test_index::test_embedding_padding_row_gets_no_gradient test_nn_layers::test_embedding test_norm_loss::test_refusals
        test_pool::test_unpool test_refused_types::test_the_error_is_of_pytorchs_type test_shape::test_one_hot
    """,
    "PyTorch's GPU divides integers by zero, too": "test_math::test_refusal",
    "it starts processes": """
        test_as_torch test_data_workers test_distributed test_distributed_as_torch test_distributed_failures test_distributed_leaks
        test_distributed_nccl test_distributed_nn test_distributed_run test_distributed_stores test_distributed_training test_hub
        test_multiprocessing test_optim_as_torch
    """,
    "a fault that is known: other words of an error": """
        test_errors::test_a_number_where_a_tensor_belongs test_index::test_a_value_may_have_leading_dimensions_of_one_behind_a_mask
        test_reduce::test_refusal
    """,
    "a fault that is known: a number in a tensor on the GPU does not stand for an argument that is a number": """
        test_for_libraries::test_a_tensor_of_one_number_stands_for_a_number
    """,
    "a fault that is known: some models are exported from the CPU only": "test_onnx",
    "a fault that is known: nextafter computes in float32": "test_silently_wrong::test_the_next_number_is_one_of_the_dtype",
    "a fault that is known: CuPy's log1p of complex numbers is that of 1 + z": "test_math::test_log1p_of_small_complex_numbers",
    "a fault that is known: rules of factorizations make arrays on the CPU under vmap": """
        test_vmap_ops::test_gradients_by_sample[ops.decompose] test_vmap_ops::test_gradients_by_sample[ops.factor]
        test_vmap_ops::test_values[ops.factor]
    """,
}


def reason(module: str, test: str) -> str | None:
    """Why a test, with its parameters in brackets, is only for the CPU, or all of its function or module; None if it is not."""
    names = f"{module}::{test}", f"{module}::{test.partition('[')[0]}", module
    return next((_REASONS[name] for name in names if name in _REASONS), None)


_REASONS = {name: why for why, names in TABLE.items() for name in names.split()}
