"""A drafter and a refiner for xpress-bench that count nothing but which token followed which."""
