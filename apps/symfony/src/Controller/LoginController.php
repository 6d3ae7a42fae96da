<?php

declare(strict_types=1);

namespace App\Controller;

use App\Form\LoginType;
use Symfony\Bundle\FrameworkBundle\Controller\AbstractController;
use Symfony\Component\Form\FormError;
use Symfony\Component\HttpFoundation\Request;
use Symfony\Component\HttpFoundation\Response;
use Symfony\Component\Routing\Attribute\Route;

/**
 * A login kept in PHP's session. The credentials are shown on the page: they protect nothing.
 */
final class LoginController extends AbstractController
{
    private const USER = 'demo';
    private const PASSWORD = 'hearth';

    #[Route('/login', name: 'login', methods: ['GET', 'POST'])]
    public function login(Request $request): Response
    {
        // A visitor without a cookie has no session to look into; none is started for looking.
        if ($request->hasPreviousSession() && $request->getSession()->has('user')) {
            return $this->redirectToRoute('account', status: Response::HTTP_SEE_OTHER);
        }

        $form = $this->createForm(LoginType::class);
        $form->handleRequest($request);
        $submitted = $form->isSubmitted();
        if ($submitted && $form->isValid()) {
            if ([self::USER, self::PASSWORD] === [$form->get('user')->getData(), $form->get('password')->getData()]) {
                // A new id, so that nobody who knew the old one is logged in too.
                $request->getSession()->migrate(true);
                $request->getSession()->set('user', self::USER);

                return $this->redirectToRoute('account', status: Response::HTTP_SEE_OTHER);
            }
            $form->addError(new FormError('User or password is wrong.'));
        }

        return $this->render('login.html.twig', [
            'form' => $form->createView(),
            'user' => self::USER,
            'password' => self::PASSWORD,
        ], new Response(status: $submitted ? Response::HTTP_UNPROCESSABLE_ENTITY : Response::HTTP_OK));
    }

    #[Route('/account', name: 'account', methods: ['GET'])]
    public function account(Request $request): Response
    {
        if (!$request->hasPreviousSession() || !$request->getSession()->has('user')) {
            return $this->redirectToRoute('login', status: Response::HTTP_SEE_OTHER);
        }
        $session = $request->getSession();
        $visits = $session->get('visits');
        $session->set('visits', $visits = (is_int($visits) ? $visits : 0) + 1);

        return $this->render('account.html.twig', ['user' => $session->get('user'), 'visits' => $visits]);
    }

    #[Route('/logout', name: 'logout', methods: ['POST'])]
    public function logout(Request $request): Response
    {
        if ($request->hasPreviousSession()) {
            $session = $request->getSession();
            // One that was not started has no id, and would be left as it is.
            $session->start();
            $session->invalidate();
        }

        return $this->redirectToRoute('login', status: Response::HTTP_SEE_OTHER);
    }
}
