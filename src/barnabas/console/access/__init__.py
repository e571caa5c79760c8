"""Who is there and what they may do.

- `passwords.PasswordFile` knows who may log in; `sessions.Sessions` who has.
- `roles.RoleFile` says what each may do, by cluster, resource and pattern; both files are read again as soon
  as they change, for each request.
- `rules` is the table of what each path and each action needs. What is not in it is refused.
- `login.Login` is all of it; `gate.LoginGate` stands before the application and lets in who has logged in.
"""
